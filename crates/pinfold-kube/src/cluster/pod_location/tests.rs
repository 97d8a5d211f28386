use std::sync::Arc;

use pinfold_cluster::{Evaluation, PodRequest};

use super::*;
use crate::decider::Decider;
use crate::objects::{self, ClusterObjects};

fn reading(decider: Decider) -> DialectOptions {
    DialectOptions {
        decider,
        ..DialectOptions::default()
    }
}

/// A node of two NUMA nodes with 8 CPUs each, of which so many are available, and pods with so many.
fn node(scope: &str, available: [u32; 2], pods: &[(&str, u32)]) -> String {
    let zone = |id: usize| {
        format!(
            "- {{name: node-{id}, type: Node, resources: [\
             {{name: cpu, capacity: 8, allocatable: 8, available: {}}}, \
             {{name: memory, capacity: 8Gi, allocatable: 8Gi, available: {}Gi}}]}}\n",
            available[id], available[id]
        )
    };
    let mut text = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\n\
         status: {{allocatable: {{cpu: 16, memory: 16Gi, pods: 10}}}}\n---\n\
         apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\nmetadata: {{name: n1}}\n\
         attributes: [{{name: topologyManagerPolicy, value: single-numa-node}}, \
         {{name: topologyManagerScope, value: {scope}}}]\nzones:\n{}{}",
        zone(0),
        zone(1)
    );
    for (name, cpus) in pods {
        text.push_str(&pod(name, *cpus, "nodeName: n1, "));
    }
    text
}

fn pod(name: &str, cpus: u32, node: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{{node}containers: [{{name: main, resources: {{limits: {{cpu: {cpus}, memory: {cpus}Gi}}}}}}]}}\n"
    )
}

fn reports(text: &str) -> ClusterObjects {
    let read = objects::read("test", text.as_bytes());
    read.expect("objects").value
}

fn seats(objects: &ClusterObjects, decider: Decider) -> Vec<PodLocation> {
    let sources = objects.nodes_with_sources();
    let pods = sources[0].pods.iter();
    pods.map(|pod| sources[0].location_of(pod, &reading(decider)))
        .collect()
}

fn on(node: i64) -> PodLocation {
    PodLocation::Known {
        cpus: CpuSet::new(),
        numa: NodeSet::single(NodeId::new(node).expect("an id")),
        by: LocationSource::Counts,
    }
}

#[test]
fn pods_are_located_where_the_resources_in_use_add_up() {
    let kubelet = Decider::default();
    // 4 and 6 CPUs in use: 4 can only be on one, then 6 on the other.
    let reported = reports(&node("container", [4, 2], &[("four", 4), ("six", 6)]));
    assert_eq!(seats(&reported, kubelet), [on(0), on(1)]);
    // 2 + 4 fill one and 6 the other, or the other way round.
    let open = reports(&node("container", [2, 2], &[("a", 2), ("b", 4), ("c", 6)]));
    let both: NodeSet = [0, 1]
        .into_iter()
        .filter_map(|id| NodeId::new(id).ok())
        .collect();
    assert_eq!(
        seats(&open, kubelet),
        [
            PodLocation::OneOf(both),
            PodLocation::OneOf(both),
            PodLocation::OneOf(both)
        ]
    );
    // More than is in use anywhere: the report is older than the pod.
    let stale = reports(&node("container", [8, 8], &[("four", 4)]));
    assert_eq!(seats(&stale, kubelet), [PodLocation::Unknown]);
}

#[test]
fn containers_aligned_one_by_one_may_be_on_different_numa_nodes() {
    let two = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: two}\nspec: {nodeName: n1, containers: [\
               {name: a, resources: {limits: {cpu: 2, memory: 2Gi}}}, \
               {name: b, resources: {limits: {cpu: 2, memory: 2Gi}}}]}\n";
    for (scope, expected) in [("container", PodLocation::Unknown), ("pod", on(0))] {
        let text = format!("{}{two}", node(scope, [4, 8], &[]));
        let found = seats(&reports(&text), Decider::default());
        assert_eq!(found, [expected], "{scope}");
    }
}

#[test]
fn a_node_without_a_pod_has_its_resources_available_again() {
    let text = node("container", [4, 2], &[("four", 4), ("six", 6)]) + &pod("new", 7, "");
    let reported = reports(&text);
    let options = reading(Decider::default());
    let sources = reported.nodes_with_sources();
    let new = reported.pods.last().expect("the new one");
    let pod_request = PodRequest::new(Arc::new(new.pod.clone()));
    let mut full = sources[0].member(&options).expect("a member").value;
    assert!(matches!(
        full.evaluate(&pod_request),
        Evaluation::Rejected(_)
    ));
    for (left, fits) in [(&["four"][..], true), (&["six"], true), (&[], false)] {
        let leaving: Vec<_> = sources[0]
            .pods
            .iter()
            .filter(|pod| left.contains(&pod.meta.name.as_str()))
            .map(|pod| (*pod, sources[0].location_of(pod, &options)))
            .collect();
        let without = sources[0].member_without_pods(&leaving, &options);
        let verdict = without.expect("a member").value.evaluate(&pod_request);
        assert_eq!(
            matches!(verdict, Evaluation::Fits(_)),
            fits,
            "{left:?}: {verdict:?}"
        );
    }
    // A pod that cannot be located releases no resource of a NUMA node.
    let unknown = [(sources[0].pods[0], PodLocation::Unknown)];
    let mut without = sources[0]
        .member_without_pods(&unknown, &options)
        .expect("a member")
        .value;
    assert!(matches!(
        without.evaluate(&pod_request),
        Evaluation::Rejected(_)
    ));
}

#[test]
fn the_scheduler_s_annotation_on_a_pod_has_precedence() {
    let text = node("container", [4, 8], &[])
        + "---\napiVersion: v1\nkind: Pod\n\
        metadata: {name: bound, annotations: {scheduling.koordinator.sh/resource-status: \
        '{\"cpuset\": \"2-3\", \"numaNodeResources\": [{\"node\": 1, \"resources\": {\"cpu\": \"2\"}}]}'}}\n\
        spec: {nodeName: n1, containers: [{name: main, resources: {limits: {cpu: 2, memory: 2Gi}}}]}\n";
    let reported = reports(&text);
    let expected = PodLocation::Known {
        cpus: CpuSet::parse("2-3").expect("a list"),
        numa: NodeSet::single(NodeId::new(1).expect("an id")),
        by: LocationSource::Pod,
    };
    assert_eq!(seats(&reported, Decider::Koordinator), [expected]);
}
