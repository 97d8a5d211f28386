use super::*;
use crate::manifest;

fn documents(text: &str) -> Vec<Document> {
    manifest::read("test", text.as_bytes()).expect("objects")
}

fn constraints(text: &str) -> PodConstraints {
    let document = &documents(text)[0];
    let spec = document.root().get("spec").expect("a spec");
    PodConstraints::of_spec(&spec, document, &mut DiagnosticReport::new("test"))
}

fn pod(spec: &str) -> PodConstraints {
    let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}");
    constraints(&text)
}

fn node(spec: &str) -> NodeConstraints {
    let text = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: one, labels: {{zone: a, size: \"7\"}}}}, spec: {spec}}}"
    );
    let read = NodeObject::read(&documents(&text)[0]).expect("a node");
    NodeConstraints::of(&read.value)
}

fn mismatch(node: &NodeConstraints, pod: &PodConstraints) -> Option<NodeMismatch> {
    node.mismatch(pod, &UsedPorts::default())
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
        assert_eq!(mismatch(&tainted, &pod).is_none(), allowed, "{tolerations}");
    }
    let soft = node("{taints: [{key: gpu, effect: PreferNoSchedule}]}");
    assert_eq!(mismatch(&soft, &pod("{}")), None);
}

#[test]
fn a_cordoned_node_accepts_only_pods_that_tolerate_it() {
    let cordoned = node("{unschedulable: true}");
    assert_eq!(
        mismatch(&cordoned, &pod("{}")),
        Some(NodeMismatch::Unschedulable)
    );
    let tough = pod("{tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]}");
    assert_eq!(mismatch(&cordoned, &tough), None);
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
        assert_eq!(mismatch(&node, &pod(&spec)).is_none(), selected, "{spec}");
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
    let terms = constraints(text);
    assert!(terms.finished && terms.terminating && terms.immovable);
    assert_eq!(
        terms.scheduler_message.as_deref(),
        Some("0/1 nodes are available")
    );
    assert_eq!(terms.unchecked_fields, ["volume claims"]);
}

#[test]
fn a_pod_that_names_another_node_does_not_match() {
    let elsewhere = pod("{nodeName: two}");
    assert_eq!(
        mismatch(&node("{}"), &elsewhere),
        Some(NodeMismatch::OtherNode)
    );
    assert_eq!(mismatch(&node("{}"), &pod("{nodeName: one}")), None);
    assert!(elsewhere.is_bound() && !pod("{}").is_bound());
}

#[test]
fn host_ports_conflict_by_protocol_number_and_address() {
    let ports = |text: &str| {
        let spec = format!("{{containers: [{{name: c, ports: [{text}]}}]}}");
        pod(&spec).host_ports
    };
    for (own, other, conflict) in [
        ("{hostPort: 80}", "{hostPort: 80}", true),
        ("{hostPort: 80}", "{hostPort: 81}", false),
        ("{hostPort: 80}", "{hostPort: 80, protocol: UDP}", false),
        ("{hostPort: 80}", "{hostPort: 80, hostIP: 10.0.0.1}", true),
        (
            "{hostPort: 80, hostIP: 10.0.0.2}",
            "{hostPort: 80, hostIP: 10.0.0.1}",
            false,
        ),
        ("{containerPort: 80}", "{containerPort: 80}", false),
    ] {
        let mut used = UsedPorts::default();
        used.add(&"a".into(), &ports(own));
        assert_eq!(
            used.conflict(&ports(other)).is_some(),
            conflict,
            "{own} {other}"
        );
        used.remove(&"a".into());
        assert_eq!(used.conflict(&ports(other)), None);
    }
}

#[test]
fn sidecars_and_pods_in_the_hosts_network_use_host_ports() {
    let sidecar = pod(
        "{containers: [{name: c}], initContainers: [{name: s, restartPolicy: Always, ports: [{hostPort: 80}]}, \
         {name: i, ports: [{hostPort: 81}]}]}",
    );
    let numbers: Vec<i64> = sidecar.host_ports.iter().map(|port| port.port).collect();
    assert_eq!(numbers, [80], "an init container that ends keeps no port");
    let on_host =
        pod("{hostNetwork: true, containers: [{name: c, ports: [{containerPort: 9100}]}]}");
    assert_eq!(on_host.host_ports[0].port, 9100);
}

#[test]
fn only_requirements_are_listed_as_unchecked() {
    let soft = pod(
        "{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}, \
         topologySpreadConstraints: [{whenUnsatisfiable: ScheduleAnyway}]}",
    );
    assert!(soft.unchecked_fields.is_empty());
    let hard = pod(
        "{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: []}}, \
         topologySpreadConstraints: [{whenUnsatisfiable: DoNotSchedule}], resourceClaims: [{name: gpu}]}",
    );
    assert_eq!(hard.unchecked_fields, ["resource claims"]);
}

#[test]
fn kube_scheduler_looks_only_at_nodes_that_every_term_names() {
    let affinity = |terms: &str| {
        pod(&format!(
            "{{affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{terms}]}}}}}}}}"
        ))
    };
    let named = |names: &str| {
        format!("{{matchFields: [{{key: metadata.name, operator: In, values: [{names}]}}]}}")
    };
    let node = NodeConstraints {
        name: "one".to_owned(),
        unschedulable: true,
        ..NodeConstraints::default()
    };
    let mismatch = |terms: &str| node.mismatch(&affinity(terms), &UsedPorts::default());
    assert_eq!(
        mismatch(&named("two, three")),
        Some(NodeMismatch::OtherName)
    );
    assert_eq!(
        mismatch(&named("two, one")),
        Some(NodeMismatch::Unschedulable)
    );
    let any = format!(
        "{}, {{matchExpressions: [{{key: a, operator: Exists}}]}}",
        named("two")
    );
    assert_eq!(mismatch(&any), Some(NodeMismatch::Unschedulable));
    let both = "{matchFields: [{key: metadata.name, operator: In, values: [one]}, \
                {key: metadata.name, operator: In, values: [two]}]}";
    assert_eq!(mismatch(both), Some(NodeMismatch::ConflictingNames));
}
