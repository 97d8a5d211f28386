//! The number of replicas of a node is what the cluster places there one after the other.

use proptest::prelude::*;

use super::properties::{NODES, new_node};
use super::*;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::TopologyScope;

/// The replicas that the totals of a node allow.
fn by_totals(node: &ClusterNode, request: &PodRequest) -> usize {
    let (free, used) = (node.allocatable(), node.used());
    let requests = request.requests().iter().filter(|&(_, amount)| amount > 0);
    let fits = requests
        .map(|(name, amount)| (free.get(name.as_str()) - used.get(name.as_str())).max(0) / amount);
    let pods = free.get(PODS) - used.get(PODS);
    usize::try_from(fits.fold(pods, i64::min)).expect("few")
}

/// Places replicas on a node until one is rejected.
fn placed(node: &ClusterNode, request: &PodRequest) -> usize {
    let mut cluster = Cluster::new();
    cluster.insert("a".into(), node.clone());
    let mut replicas = (1..).map(|number| request.copy(number));
    let mut place = || cluster.place_on(&replicas.next().expect("no end"), &"a".into());
    (0..).take_while(|_| place().is_ok()).count()
}

/// A node of `name` with pods of these sizes, as far as they fit.
fn filled(name: &str, sizes: &[u32]) -> ClusterNode {
    let mut cluster = Cluster::new();
    cluster.insert("a".into(), new_node(name));
    for (at, size) in sizes.iter().enumerate() {
        let _ = cluster.place(&request(&format!("filler-{at}"), *size));
    }
    cluster.remove_node(&"a".into()).expect("it is there")
}

proptest! {
    #[test]
    fn a_node_starts_as_many_replicas_as_the_cluster_places_on_it(
        fillers in proptest::collection::vec((0..NODES.len(), proptest::collection::vec(1_u32..4, 0..5)), 1..12),
        size in 0_u32..4,
    ) {
        let request = request("replica", size);
        let mut counter = ReplicaCounter::new(request.clone());
        for (name, sizes) in fillers {
            let node = filled(NODES[name], &sizes);
            let limit = by_totals(&node, &request);
            let count = counter.count(&node, limit).expect("it has the policy that it has");
            prop_assert_eq!(count.started, placed(&node, &request), "{} {:?}", NODES[name], sizes);
            prop_assert_eq!(count.rejection.is_none(), count.started == limit);
            // A lower limit is answered from memory.
            let lower = counter.count(&node, limit / 2).expect("as before");
            prop_assert_eq!(lower.started, count.started.min(limit / 2));
        }
    }
}

#[test]
fn fragmented_kubelets_start_fewer_replicas_than_their_totals_promise() {
    // CPU 0 is reserved: 4 and 5 CPUs are free on the NUMA nodes.
    let request = request("replica", 3);
    let count = |policy| {
        let policy = KubeletPolicy {
            policy,
            scope: TopologyScope::Container,
        };
        let node = kubelet("single-numa-node");
        ReplicaCounter::under(request.clone(), policy).count(&node, 3)
    };
    let aligned = count(TopologyPolicy::SingleNumaNode).expect("possible");
    assert_eq!(aligned.started, 2);
    let rejection = aligned.rejection.expect("the third does not fit");
    assert_eq!(rejection.summary(), "TopologyAffinityError");
    let scattered = count(TopologyPolicy::None).expect("possible");
    assert_eq!((scattered.started, scattered.rejection), (3, None));
}
