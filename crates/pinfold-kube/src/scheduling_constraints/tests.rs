use super::*;
use crate::manifest;

fn documents(text: &str) -> Vec<Document> {
    manifest::read("test", text.as_bytes()).expect("objects")
}

fn pod(spec: &str) -> PodConstraints {
    let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}");
    PodConstraints::read(&documents(&text)[0])
}

fn node(spec: &str) -> NodeConstraints {
    let text = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: one, labels: {{zone: a, size: \"7\"}}}}, spec: {spec}}}"
    );
    NodeConstraints::read(&documents(&text)[0])
}

#[test]
fn a_taint_excludes_pods_that_do_not_tolerate_it() {
    let tainted = node("{taints: [{key: gpu, value: \"yes\", effect: NoSchedule}]}");
    for (tolerations, allowed) in [
        ("", false),
        ("{key: gpu, operator: Exists}", true),
        ("{key: gpu, value: \"yes\"}", true),
        ("{key: gpu, value: \"no\"}", false),
        ("{key: gpu, operator: Exists, effect: NoExecute}", false),
        ("{operator: Exists}", true),
        ("{key: other, operator: Exists}", false),
    ] {
        let pod = pod(&format!("{{tolerations: [{tolerations}]}}"));
        assert_eq!(tainted.mismatch(&pod).is_none(), allowed, "{tolerations}");
    }
    let soft = node("{taints: [{key: gpu, effect: PreferNoSchedule}]}");
    assert_eq!(soft.mismatch(&pod("{}")), None);
}

#[test]
fn a_cordoned_node_accepts_only_pods_that_tolerate_it() {
    let cordoned = node("{unschedulable: true}");
    assert_eq!(
        cordoned.mismatch(&pod("{}")),
        Some(NodeMismatch::Unschedulable)
    );
    let tough = pod("{tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]}");
    assert_eq!(cordoned.mismatch(&tough), None);
}

#[test]
fn only_nodes_that_the_pod_selects_match() {
    let node = node("{}");
    let affinity = |term: &str| {
        format!(
            "{{affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{term}]}}}}}}}}"
        )
    };
    let expression = |text: &str| affinity(&format!("{{matchExpressions: [{text}]}}"));
    for (spec, selected) in [
        ("{nodeSelector: {zone: a}}".to_owned(), true),
        ("{nodeSelector: {zone: b}}".to_owned(), false),
        (
            expression("{key: zone, operator: In, values: [b, a]}"),
            true,
        ),
        (
            expression("{key: zone, operator: NotIn, values: [a]}"),
            false,
        ),
        (
            expression("{key: rack, operator: NotIn, values: [a]}"),
            true,
        ),
        (expression("{key: rack, operator: Exists}"), false),
        (expression("{key: rack, operator: DoesNotExist}"), true),
        (
            expression("{key: size, operator: Gt, values: [\"6\"]}"),
            true,
        ),
        (
            expression("{key: size, operator: Lt, values: [\"7\"]}"),
            false,
        ),
        (expression("{key: size, operator: Near}"), false),
        (
            affinity("{matchFields: [{key: metadata.name, operator: In, values: [one]}]}"),
            true,
        ),
        (affinity("{}"), false),
        (
            affinity("{}, {matchExpressions: [{key: zone, operator: Exists}]}"),
            true,
        ),
    ] {
        assert_eq!(node.mismatch(&pod(&spec)).is_none(), selected, "{spec}");
    }
}

#[test]
fn the_status_of_a_pod_is_read_from_its_conditions_and_owners() {
    let text = "
apiVersion: v1
kind: Pod
metadata:
  name: p
  deletionTimestamp: '2026-01-01T00:00:00Z'
  ownerReferences: [{kind: DaemonSet, name: d}]
spec:
  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
  containers: [{name: c, ports: [{hostPort: 80}]}]
status:
  phase: Failed
  conditions: [{type: PodScheduled, status: 'False', message: 0/1 nodes are available}]
";
    let terms = PodConstraints::read(&documents(text)[0]);
    assert!(terms.finished && terms.terminating && terms.immovable);
    assert_eq!(
        terms.scheduler_message.as_deref(),
        Some("0/1 nodes are available")
    );
    assert_eq!(terms.unchecked_fields, ["volume claims", "host ports"]);
}

#[test]
fn pod_templates_are_read_at_the_path_of_their_kind() {
    for text in [
        "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {nodeSelector: {zone: b}}}}}",
        "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {nodeSelector: {zone: b}}}}}}}",
    ] {
        let terms = PodConstraints::read(&documents(text)[0]);
        assert_eq!(
            node("{}").mismatch(&terms),
            Some(NodeMismatch::NotSelected),
            "{text}"
        );
    }
}
