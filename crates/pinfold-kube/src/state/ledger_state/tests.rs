use std::sync::Arc;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::device::{DevicePool, NoPreference};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::NodeId;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;

use super::*;
use crate::state::device::DeviceEntry;

fn node(id: i64) -> NodeId {
    NodeId::new(id).expect("small")
}

/// One NUMA node with 4 CPUs, of which the first is reserved.
fn empty_node() -> Ledger {
    let cores = (0..4).map(|id| Core {
        id,
        socket: 0,
        die: None,
        l3: None,
        threads: CpuId::new(id).into_iter().collect(),
    });
    let machine = Machine::new(MachineParts {
        nodes: vec![NumaNode {
            id: node(0),
            memory: 1 << 30,
            hugepages: Vec::new(),
            distances: Vec::new(),
            cores: cores.collect(),
        }],
        num_cpus: 4,
        num_sockets: 1,
        offline: CpuSet::new(),
    });
    let settings = Settings {
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(1)),
        ..Settings::default()
    };
    let machine = Arc::new(machine.expect("consistent"));
    Ledger::new(Arc::new(Rules::new(machine, settings).expect("fits")))
}

/// A pod with CPUs 1 and 2 and a device near node 0; another device is free.
fn files() -> StateFiles {
    let pod = PodUid::from("p1");
    let cpus = CpuSet::parse("1-2").expect("a list");
    StateFiles {
        cpus: Some(CpuManagerState {
            policy: "static".into(),
            default_cpus: CpuSet::parse("0,3").expect("a list"),
            containers: [(pod.clone(), [("main".into(), cpus)].into())].into(),
            pods: BTreeMap::new(),
        }),
        memory: None,
        devices: Some(DeviceManagerState {
            entries: vec![DeviceEntry {
                pod,
                container: "main".into(),
                resource: "example.com/gpu".into(),
                devices: [(Some(node(0)), vec!["gpu0".into()])].into(),
                response: Vec::new(),
            }],
            registered: [("example.com/gpu".into(), vec!["gpu0".into(), "gpu1".into()])].into(),
        }),
    }
}

#[test]
fn a_ledger_is_restored_with_pods_that_request_what_they_hold() {
    let (files, empty) = (files(), empty_node());
    let pods: Vec<Arc<Pod>> = files
        .unlisted_pods(&BTreeSet::new())
        .into_iter()
        .map(Arc::new)
        .collect();
    let mut pool = DevicePool::new(empty.rules().machine().node_ids());
    for (resource, offer) in files.offers() {
        pool.set_devices(resource, offer);
    }
    let saved = files.to_saved_state(empty.state());
    let rules = empty.rules().clone();
    let (ledger, _) =
        Ledger::restart_from(rules, saved, pool, &pods, &mut NoPreference).expect("sound");
    let occupancy = ledger.occupancy();
    assert_eq!(occupancy.holders.len(), 1);
    assert_eq!(occupancy.holders[0].cpus.to_string(), "1-2");
    assert_eq!(occupancy.shared.to_string(), "0,3");
    let seats: Vec<_> = occupancy
        .devices
        .iter()
        .map(|seat| (seat.id.as_str(), seat.nodes.contains(node(0)), seat.holder))
        .collect();
    assert_eq!(seats, [("gpu0", true, Some(0)), ("gpu1", false, None)]);
    assert_eq!(pods[0].containers[0].requests["cpu"], Quantity::from(2));
}

#[test]
fn a_known_pod_is_not_among_the_unlisted_ones() {
    assert_eq!(files().unlisted_pods(&[PodUid::from("p1")].into()), []);
}

#[test]
fn a_file_of_the_policy_none_gives_the_empty_node() {
    let empty = empty_node();
    let mut files = files();
    files.cpus = Some(CpuManagerState {
        policy: "none".into(),
        ..CpuManagerState::default()
    });
    assert_eq!(
        files.to_saved_state(empty.state()).cpus,
        *empty.state().cpus()
    );
}
