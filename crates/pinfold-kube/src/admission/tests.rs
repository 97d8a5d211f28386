use pinfold_core::fidelity::Fidelity;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;

use super::*;
use crate::manifest;
use crate::node::NodeObject;

/// A pod with this metadata and spec.
fn object(meta: &str, spec: &str) -> PodObject {
    let text =
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p, {meta}}}, spec: {spec}}}");
    let read = crate::pod::read("test", text.as_bytes()).expect("a pod");
    read.value.into_iter().next().expect("one pod")
}

fn pod(spec: &str) -> AdmissionRequest {
    AdmissionRequest::of(&object("", spec))
}

/// A pod that requests these amounts in one container.
fn asking(requests: &str) -> AdmissionRequest {
    let resources = format!("{{requests: {{{requests}}}, limits: {{{requests}}}}}");
    pod(&format!(
        "{{containers: [{{name: c, resources: {resources}}}]}}"
    ))
}

fn node(spec: &str) -> AdmissionNode {
    let text = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: one, labels: {{zone: a}}}}, spec: {spec}, status: \
         {{allocatable: {{cpu: 16, memory: 64Gi, ephemeral-storage: 100Gi, pods: 3, example.com/gpu: 2}}}}}}"
    );
    let documents = manifest::read("test", text.as_bytes()).expect("objects");
    let read = NodeObject::read(&documents[0]).expect("a node").value;
    AdmissionNode::new(
        Some(NodeConstraints::of(&read)),
        Amounts::of(&read.allocatable),
    )
}

/// Reason and message of the kubelet; empty if it admits the pod.
fn kubelet(node: &AdmissionNode, pod: &AdmissionRequest) -> String {
    match node.predicates(pod, &Amounts::new()) {
        Ok(()) => String::new(),
        Err(rejection) => format!("{}: {rejection}", rejection.reason()),
    }
}

/// kube-scheduler's message; empty if it binds the pod.
fn scheduler(node: &AdmissionNode, pod: &AdmissionRequest) -> String {
    match node.filter(pod) {
        Ok(()) => String::new(),
        Err(unschedulable) => unschedulable.message(),
    }
}

#[test]
fn the_kubelet_reports_the_first_resource_that_is_short_in_its_own_words() {
    let node = node("{}");
    for (requests, expected) in [
        (
            "cpu: 1000, memory: 100Ti",
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: 16000",
        ),
        (
            "cpu: 1, memory: 65Gi",
            "OutOfmemory: Node didn't have enough resource: memory, requested: 69793218560, used: 0, capacity: \
             68719476736",
        ),
        (
            "ephemeral-storage: 101Gi, example.com/gpu: 3",
            "OutOfephemeral-storage: Node didn't have enough resource: ephemeral-storage, requested: 108447924224, \
             used: 0, capacity: 107374182400",
        ),
        (
            "cpu: 1, hugepages-2Mi: 2Mi",
            "OutOfhugepages-2Mi: Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, \
             capacity: 0",
        ),
        (
            "example.com/gpu: 3",
            "OutOfexample.com/gpu: Node didn't have enough resource: example.com/gpu, requested: 3, used: 0, \
             capacity: 2",
        ),
        ("cpu: 16, memory: 64Gi", ""),
    ] {
        assert_eq!(kubelet(&node, &asking(requests)), expected, "{requests}");
    }
}

#[test]
fn pods_on_the_node_count_until_they_are_removed() {
    let mut node = node("{}");
    let half = asking("cpu: 8");
    node.add(&"a".into(), &half);
    node.add(&"b".into(), &asking("cpu: 1"));
    let text = "OutOfcpu: Node didn't have enough resource: cpu, requested: 8000, used: 9000, capacity: 16000";
    assert_eq!(kubelet(&node, &half), text);
    assert_eq!(
        scheduler(&node, &half),
        "0/1 nodes are available: 1 Insufficient cpu."
    );
    node.remove(&"b".into());
    assert_eq!(kubelet(&node, &half), "");
    assert_eq!(scheduler(&node, &half), "");
}

#[test]
fn a_full_node_takes_not_even_a_pod_that_requests_nothing() {
    let mut node = node("{}");
    let nothing = asking("");
    for uid in ["a", "b", "c"] {
        assert_eq!(kubelet(&node, &nothing), "");
        node.add(&uid.into(), &nothing);
    }
    let text =
        "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3";
    assert_eq!(kubelet(&node, &nothing), text);
    assert_eq!(
        scheduler(&node, &nothing),
        "0/1 nodes are available: 1 Too many pods."
    );
}

#[test]
fn overhead_init_containers_sidecars_and_pod_level_requests_count() {
    let cpu = |amount: &str| format!("resources: {{requests: {{cpu: {amount}}}}}");
    let (two, three) = (cpu("2"), cpu("3"));
    for (spec, milli) in [
        (
            format!("containers: [{{name: c, {two}}}], overhead: {{cpu: 500m}}"),
            2500,
        ),
        (
            format!("containers: [{{name: c, {two}}}], initContainers: [{{name: i, {three}}}]"),
            3000,
        ),
        (
            format!(
                "containers: [{{name: c, {two}}}], initContainers: [{{name: i, restartPolicy: Always, {three}}}]"
            ),
            5000,
        ),
        (
            format!(
                "containers: [{{name: c, {two}}}], resources: {{requests: {{cpu: 4}}}}, overhead: {{cpu: 500m}}"
            ),
            4500,
        ),
    ] {
        let found = pod(&format!("{{{spec}}}"));
        assert_eq!(found.requests().get("cpu"), milli, "{spec}");
    }
}

#[test]
fn extended_resources_that_the_node_does_not_list_are_dropped_by_the_kubelet_only() {
    let node = node("{}");
    let pod = asking("example.com/fpga: 1");
    assert_eq!(kubelet(&node, &pod), "");
    assert_eq!(node.unlisted(&pod), ["example.com/fpga".into()]);
    let text = "0/1 nodes are available: 1 Insufficient example.com/fpga.";
    assert_eq!(scheduler(&node, &pod), text);
    assert!(node.unlisted(&asking("example.com/gpu: 1")).is_empty());
}

#[test]
fn devices_that_the_managers_have_allocated_are_there() {
    let mut node = node("{}");
    node.set_devices(&"example.com/gpu".into(), 0);
    let pod = asking("example.com/gpu: 2");
    assert!(node.predicates(&pod, &Amounts::new()).is_err());
    let allocated = Amounts::from([("example.com/gpu", 2)]);
    assert_eq!(node.predicates(&pod, &allocated), Ok(()));
}

#[test]
fn constraints_have_the_words_of_the_program_that_checks_them() {
    const CONTAINERS: &str = "containers: [{name: c, ports: [{hostPort: 80}]}]";
    let mut tainted =
        node("{taints: [{key: old, effect: NoSchedule}, {key: gone, effect: NoExecute}]}");
    let plain = pod(&format!("{{{CONTAINERS}}}"));
    let taint = "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    assert_eq!(kubelet(&tainted, &plain), taint);
    assert_eq!(
        scheduler(&tainted, &plain),
        "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    );
    let tough = pod(&format!(
        "{{{CONTAINERS}, tolerations: [{{key: gone, operator: Exists}}]}}"
    ));
    assert_eq!(
        kubelet(&tainted, &tough),
        "",
        "NoSchedule is the scheduler's business"
    );
    tainted.add(&"a".into(), &tough);
    assert_eq!(
        kubelet(&tainted, &tough),
        "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    );

    let node = node("{unschedulable: true}");
    assert_eq!(
        kubelet(&node, &plain),
        "",
        "a cordon is the scheduler's business"
    );
    assert_eq!(
        scheduler(&node, &plain),
        "0/1 nodes are available: 1 node(s) were unschedulable."
    );
    let elsewhere = pod(&format!(
        "{{{CONTAINERS}, nodeSelector: {{zone: b}}, nodeName: two}}"
    ));
    assert_eq!(
        kubelet(&node, &elsewhere),
        "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
    let named = pod(&format!("{{{CONTAINERS}, nodeName: two}}"));
    assert_eq!(
        kubelet(&node, &named),
        "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name"
    );
}

#[test]
fn pods_for_another_operating_system_are_rejected_first() {
    let node = node("{}");
    let windows =
        pod("{os: {name: windows}, containers: [{name: c, resources: {requests: {cpu: 99}}}]}");
    assert_eq!(
        kubelet(&node, &windows),
        "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS"
    );
    let labelled = object(
        "labels: {kubernetes.io/os: windows}",
        "{containers: [{name: c}]}",
    );
    assert_eq!(
        kubelet(&node, &AdmissionRequest::of(&labelled)),
        "PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node \
         label"
    );
}

#[test]
fn a_critical_pod_would_preempt_unless_a_constraint_fails() {
    let node = node("{}");
    let big = "priority: 2000000000, containers: [{name: c, resources: {requests: {cpu: 17}}}]";
    let rejection = node.predicates(&pod(&format!("{{{big}}}")), &Amounts::new());
    assert!(rejection.expect_err("too big").preempts());
    let elsewhere = pod(&format!("{{{big}, nodeSelector: {{zone: b}}}}"));
    let rejection = node.predicates(&elsewhere, &Amounts::new());
    assert_eq!(rejection, Err(KubeletRejection::NodeAffinity));
}

#[test]
fn reasons_of_several_nodes_are_counted_and_sorted_as_text() {
    let cpu = "Insufficient cpu".to_owned();
    let nodes = [
        vec![cpu.clone(), "Insufficient memory".to_owned()],
        vec!["node(s) were unschedulable".to_owned()],
        vec![cpu],
    ];
    assert_eq!(
        unavailable(nodes),
        "0/3 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable, 2 Insufficient cpu."
    );
}

#[test]
fn a_gated_pod_is_not_scheduled() {
    let gated = pod("{schedulingGates: [{name: quota}], containers: [{name: c}]}");
    assert_eq!(
        scheduler(&node("{}"), &gated),
        "waiting for scheduling gates: [quota]"
    );
    assert_eq!(kubelet(&node("{}"), &gated), "");
}

#[test]
fn a_machine_without_a_node_object_has_neither_labels_nor_disks() {
    let machine = AdmissionNode::new(None, Amounts::from([("cpu", 1000), ("pods", 110)]));
    let spec = "{nodeSelector: {zone: b}, nodeName: two, resourceClaims: [{name: gpu}], \
                containers: [{name: c, resources: {requests: {ephemeral-storage: 1Gi, cpu: 1}}}]}";
    let found = pod(spec);
    assert_eq!(kubelet(&machine, &found), "");
    assert_eq!(scheduler(&machine, &found), "");
    let expected = [
        "resource claims",
        "node selector and affinity (no Node object)",
        "ephemeral-storage (no Node object)",
    ];
    assert_eq!(machine.not_simulated(&found), expected);
}

#[test]
fn allocatable_is_the_capacity_less_reservations_and_hugepages() {
    let capacity = NodeCapacity {
        cpus: 16,
        memory: 64 << 30,
        hugepages: [("hugepages-1Gi".into(), 4 << 30)].into(),
        devices: [("example.com/gpu".into(), 2)].into(),
    };
    let settings = Settings {
        fidelity: Fidelity::Exact,
        reserved_cpu: Some(Quantity::milli(1500)),
        node_reservation: [("memory".into(), Quantity::bytes(1 << 30))].into(),
        ..Settings::default()
    };
    let limits = PodLimits {
        max_pods: 250,
        pods_per_core: 10,
    };
    let found = capacity.allocatable(&settings, limits);
    let expected = Amounts::from([
        ("cpu", 14_500),
        ("memory", 59 << 30),
        ("hugepages-1Gi", 4 << 30),
        ("example.com/gpu", 2),
        ("pods", 160),
    ]);
    assert_eq!(found, expected);
    let all = Settings {
        reserved_cpu: Some(Quantity::from(17)),
        ..settings
    };
    assert_eq!(
        capacity.allocatable(&all, limits).get("cpu"),
        0,
        "never below zero"
    );
}

#[test]
fn the_sums_promise_replicas_until_the_first_resource_is_used_up() {
    let mut node = node("{}");
    let promised = |node: &AdmissionNode, requests: &str| {
        let sums = node.replicas(&asking(requests)).expect("not excluded");
        let names: Vec<&str> = sums.limits.iter().map(ResourceName::as_str).collect();
        format!("{} {}", sums.replicas, names.join("+"))
    };
    for (requests, expected) in [
        ("cpu: 6", "2 cpu"),
        ("cpu: 8, memory: 32Gi", "2 cpu+memory"),
        ("cpu: 1", "3 pods"),
        ("cpu: 17", "0 cpu"),
        ("example.com/gpu: 1, cpu: 8", "2 cpu+example.com/gpu"),
        ("example.com/fpga: 1", "0 example.com/fpga"),
    ] {
        assert_eq!(promised(&node, requests), expected, "{requests}");
    }
    node.add(&"a".into(), &asking("cpu: 9"));
    assert_eq!(promised(&node, "cpu: 2"), "2 pods");
    assert_eq!(promised(&node, "cpu: 4"), "1 cpu");
}

#[test]
fn each_promised_replica_passes_the_filters_and_the_next_one_does_not() {
    for requests in ["cpu: 6", "cpu: 3, memory: 30Gi", "cpu: 100m"] {
        let (mut node, pod) = (node("{}"), asking(requests));
        let promised = node.replicas(&pod).expect("not excluded").replicas;
        for number in 0..promised {
            assert_eq!(scheduler(&node, &pod), "", "{requests}: replica {number}");
            node.add(&format!("replica-{number}").into(), &pod);
        }
        assert_ne!(scheduler(&node, &pod), "", "{requests}");
    }
}

#[test]
fn a_node_has_one_replica_of_a_pod_with_a_host_port_and_none_if_it_is_excluded() {
    let port = "{containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]}";
    let sums = node("{}").replicas(&pod(port)).expect("not excluded");
    assert_eq!((sums.replicas, sums.is_port_limited), (1, true));
    let cordoned = node("{unschedulable: true}");
    let excluded = cordoned.replicas(&asking("cpu: 1"));
    assert!(
        matches!(excluded, Err(Unschedulable::Mismatch(_))),
        "{excluded:?}"
    );
}
