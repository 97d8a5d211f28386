//! The arguments of other schedulers' plugins reach decisions.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::node::TestNode;
use super::{cache, pod_json};
use crate::cache::pod_info::{self, PodInfo};
use crate::cache::{Cache, node};
use crate::engine::dialect_args::DialectArgs;
use crate::engine::wire::WireDialectArgs;
use crate::weights::{Prefer, Weights};

fn args(koordinator: &serde_json::Value, volcano_weight: u32) -> DialectArgs {
    let request = WireDialectArgs {
        koordinator: koordinator.to_string().into_bytes(),
        volcano_weight,
    };
    DialectArgs::read(Some(&request)).expect("valid")
}

#[test]
fn the_default_policies_of_koordinators_plugin_decide_on_its_nodes() {
    let now = Instant::now();
    let node = TestNode::new("a", "none", "container").under_koordinator();
    let mut cache = cache(&[&node], now);
    let mut pod = pod_json("lsr", 6, "1Gi", None, "Pending");
    pod["metadata"]["labels"] = json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    let info = pod_info::parse(&pod.to_string()).expect("a pod").info;
    let fits = |cache: &mut Cache| cache.pre_filter(&info, &Weights::default()).scores.len();
    assert_eq!(fits(&mut cache), 1, "across NUMA nodes");
    let strict = json!({ "defaultNUMATopologyPolicy": "SingleNUMANode" });
    cache.set_dialect_args(args(&strict, 1), now);
    assert_eq!(fits(&mut cache), 0);
    cache.set_dialect_args(DialectArgs::default(), now);
    assert_eq!(fits(&mut cache), 1);
}

/// The Numatopology of a node with eight CPUs on two NUMA nodes, of which these are free.
fn numatopology(name: &str, free: &[u32]) -> serde_json::Value {
    let cpus: serde_json::Map<String, serde_json::Value> = (0..8_u32)
        .map(|cpu| {
            let row = json!({ "numa": cpu / 4, "socket": cpu / 4, "core": cpu });
            (cpu.to_string(), row)
        })
        .collect();
    let list: Vec<String> = free.iter().map(u32::to_string).collect();
    json!({
        "metadata": { "name": name, "resourceVersion": "1" },
        "spec": {
            "policies": { "CPUManagerPolicy": "static", "TopologyManagerPolicy": "best-effort" },
            "cpuDetail": cpus,
            "numares": { "cpu": { "allocatable": list.join(","), "capacity": 8 } },
        },
    })
}

/// The scores of a node where the pod spans both NUMA nodes, and of one that has it on one, by the weight of the plugin.
fn scores(cache: &mut Cache, info: &Arc<PodInfo>, weight: u32) -> Vec<u8> {
    cache.set_dialect_args(args(&json!({}), weight), Instant::now());
    // Without spans of its own, so that only Volcano's score and the utilization differ.
    let weights = Weights {
        span: 0,
        prefer: Prefer::Pack,
        ..Weights::default()
    };
    cache.pre_filter(info, &weights).scores
}

#[test]
fn the_weight_of_volcanos_plugin_decides_between_few_numa_nodes_and_a_full_node() {
    let now = Instant::now();
    let mut cache = Cache::new(super::policy());
    for (name, free) in [("scattered", &[0, 1, 4, 5][..]), ("whole", &[0, 1, 2, 3])] {
        let object = json!({
            "metadata": { "name": name, "resourceVersion": "1" },
            "status": { "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" } },
        });
        cache.apply_node(node::parse_node(&object.to_string()).expect("a node"), now);
        let numa = numatopology(name, free).to_string();
        let (name, numa) = node::parse_numa(&numa, now).expect("a Numatopology");
        assert_eq!(numa.parsed.as_ref().err(), None);
        cache.apply_numa(&name, numa, now);
    }
    // The node on which the pod spans both NUMA nodes is fuller.
    let mut other = pod_json("other", 3, "1Gi", Some("scattered"), "Running");
    other["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "4" } });
    cache.apply_pod(pod_info::parse(&other.to_string()).expect("a pod"), now);
    let mut pod = pod_json("four", 4, "1Gi", None, "Pending");
    pod["metadata"]["annotations"] = json!({ "volcano.sh/numa-topology-policy": "best-effort" });
    let info = pod_info::parse(&pod.to_string()).expect("a pod").info;
    let light = scores(&mut cache, &info, 1);
    let heavy = scores(&mut cache, &info, 100);
    let [scattered, whole] = light[..] else {
        panic!("{light:?}");
    };
    assert!(scattered >= whole, "the full node: {light:?}");
    assert!(
        heavy[0] < heavy[1],
        "the one with fewer NUMA nodes: {heavy:?}"
    );
}
