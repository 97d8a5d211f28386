//! CPUs are aligned to the devices that a kubelet has allocated, under every policy.

use std::sync::Arc;

use kubelet_api::pod_resources as api;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_devices::align::{self, align_pod, allocated_devices};

const GPU: &str = "example.com/gpu";

/// A container with `cpus` CPUs and as many GPUs as are allocated to it.
fn pod(uid: &str, cpus: i64) -> Pod {
    let list: ResourceList = [
        ("cpu".into(), Quantity::from(cpus)),
        ("memory".into(), Quantity::bytes(1 << 20)),
        (GPU.into(), Quantity::from(1)),
    ]
    .into();
    Pod {
        uid: uid.into(),
        name: String::new(),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: list.clone(),
            limits: list,
        }],
        pod_requests: None,
        pod_limits: None,
    }
}

/// Devices as the kubelet lists them: each by itself, once for each of its NUMA nodes.
fn resources(devices: &[(&str, &[i64])]) -> api::PodResources {
    let one = |id: &str, node: Option<i64>| api::ContainerDevices {
        resource_name: GPU.to_owned(),
        device_ids: vec![id.to_owned()],
        topology: node.map(|id| api::TopologyInfo {
            nodes: vec![api::NumaNode { id }],
        }),
    };
    let mut listed = Vec::new();
    for (id, nodes) in devices {
        match nodes {
            [] => listed.push(one(id, None)),
            nodes => listed.extend(nodes.iter().map(|node| one(id, Some(*node)))),
        }
    }
    api::PodResources {
        containers: vec![api::ContainerResources {
            name: "main".to_owned(),
            devices: listed,
            ..api::ContainerResources::default()
        }],
        ..api::PodResources::default()
    }
}

/// Two NUMA nodes with CPUs 0-7 and 8-15.
fn ledger(policy: &str, scope: &str) -> Ledger {
    let hardware = pinfold_hardware::open("2 sockets, 8 cores").expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("all of it");
    let settings = Settings {
        topology_policy: policy.parse().expect("a policy"),
        topology_scope: scope.parse().expect("a scope"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(1)),
        ..Settings::default()
    };
    let rules = Rules::new(Arc::new(machine), settings).expect("valid settings");
    Ledger::new(Arc::new(rules))
}

/// The CPUs of a pod with these devices; `None` if it is rejected.
fn cpus(ledger: &mut Ledger, pod: &Pod, devices: &[(&str, &[i64])]) -> Option<CpuSet> {
    let align_pod = align_pod(pod, &allocated_devices(&resources(devices)));
    for (resource, devices) in align_pod.offers {
        ledger.set_devices(resource, Some(devices));
    }
    let admission = ledger.admit(&Arc::new(align_pod.pod), &mut NoPreference);
    let decision = admission.expect("a pod").decision;
    decision
        .is_admitted()
        .then(|| ledger.exclusive_cpus(&pod.uid))
}

fn list(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

#[test]
fn cpus_land_on_the_node_of_the_device() {
    for policy in ["best-effort", "restricted", "single-numa-node"] {
        for scope in ["container", "pod"] {
            for (node, own) in [(0, "0-7"), (1, "8-15")] {
                let mut ledger = ledger(policy, scope);
                let found = cpus(&mut ledger, &pod("a", 4), &[("g", &[node])]);
                let found = found.expect("it fits");
                assert_eq!(found.len(), 4);
                assert_eq!(
                    &found - &list(own),
                    CpuSet::new(),
                    "{policy} {scope} {node}"
                );
            }
        }
    }
}

#[test]
fn without_a_policy_devices_do_not_matter() {
    let mut ledger = ledger("none", "container");
    let found = cpus(&mut ledger, &pod("a", 4), &[("g", &[1])]).expect("it fits");
    assert_eq!(&found - &list("0-7"), CpuSet::new());
}

#[test]
fn a_full_node_rejects_the_pod_or_is_left_as_the_policy_says() {
    for (policy, is_admitted) in [
        ("best-effort", true),
        ("restricted", false),
        ("single-numa-node", false),
    ] {
        let mut ledger = ledger(policy, "container");
        let first = cpus(&mut ledger, &pod("a", 6), &[("g", &[1])]);
        assert_eq!(first.expect("it fits").len(), 6);
        let second = cpus(&mut ledger, &pod("b", 6), &[("h", &[1])]);
        assert_eq!(second.is_some(), is_admitted, "{policy}");
    }
}

/// Two devices on two nodes need both nodes. Four CPUs would fit better on one node, ten would not.
#[test]
fn devices_on_two_nodes_need_both() {
    let devices: &[(&str, &[i64])] = &[("g", &[0]), ("h", &[1])];
    for (policy, count, is_admitted) in [
        ("best-effort", 4, true),
        ("restricted", 4, false),
        ("restricted", 10, true),
        ("single-numa-node", 4, false),
    ] {
        let mut ledger = ledger(policy, "container");
        let found = cpus(&mut ledger, &pod("a", count), devices);
        assert_eq!(found.is_some(), is_admitted, "{policy} {count}");
    }
}

#[test]
fn a_device_near_several_nodes_or_none_does_not_restrict_the_cpus() {
    for nodes in [&[0, 1][..], &[]] {
        let mut ledger = ledger("single-numa-node", "container");
        let found = cpus(&mut ledger, &pod("a", 4), &[("g", nodes)]);
        assert_eq!(found.expect("it fits").len(), 4);
    }
}

#[test]
fn devices_are_reported_under_the_resource_that_was_requested() {
    let aligned = align_pod(&pod("a", 2), &allocated_devices(&resources(&[("g", &[1])])));
    let own: Vec<_> = aligned.offers.keys().collect();
    assert_eq!(own.len(), 1);
    assert_ne!(own[0].as_str(), GPU);
    assert_eq!(align::requested_resource(own[0]).as_str(), GPU);
    for other in [GPU, "cpu"] {
        assert_eq!(align::requested_resource(&other.into()).as_str(), other);
    }
}
