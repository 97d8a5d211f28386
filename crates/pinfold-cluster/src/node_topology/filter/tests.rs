use super::*;
use crate::node_topology::{Attribute, Cost, Zone, ZoneResource};
use pinfold_core::name::PodUid;
use pinfold_core::pod::Pod;

type Amounts<'a> = &'a [(&'a str, &'a str)];

pub(crate) fn amounts(list: Amounts<'_>) -> ResourceList {
    let quantity = |text: &str| text.parse().expect("a quantity");
    list.iter()
        .map(|&(name, text)| (name.into(), quantity(text)))
        .collect()
}

/// The NUMA zone `id` with these available amounts; distances are ten times the local one.
pub(crate) fn zone(id: usize, available: Amounts<'_>) -> Zone {
    let resource = |(name, available)| ZoneResource {
        name,
        capacity: available,
        allocatable: available,
        available,
    };
    let cost = |to: usize| Cost {
        name: format!("node-{to}"),
        value: if to == id { 10 } else { 100 },
    };
    Zone {
        name: format!("node-{id}"),
        kind: "Node".to_owned(),
        costs: (0..4).map(cost).collect(),
        resources: amounts(available).into_iter().map(resource).collect(),
        ..Zone::default()
    }
}

pub(crate) fn topology(scope: &str, zones: Vec<Zone>) -> NodeTopology {
    let attribute = |name: &str, value: &str| Attribute {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    NodeTopology {
        topology_policies: Vec::new(),
        attributes: vec![
            attribute("topologyManagerPolicy", "single-numa-node"),
            attribute("topologyManagerScope", scope),
        ],
        zones,
    }
}

fn container(requests: Amounts<'_>, limits: bool) -> Container {
    let requests = amounts(requests);
    Container {
        name: ContainerName::from("c"),
        restartable: false,
        limits: match limits {
            true => requests.clone(),
            false => ResourceList::new(),
        },
        requests,
    }
}

/// A pod whose containers' limits equal their requests.
pub(crate) fn pod(containers: &[Amounts<'_>]) -> Pod {
    Pod {
        uid: PodUid::from("p"),
        name: String::new(),
        init_containers: Vec::new(),
        containers: containers
            .iter()
            .map(|&requests| container(requests, true))
            .collect(),
        pod_requests: None,
        pod_limits: None,
    }
}

fn check(topology: &NodeTopology, pod: &Pod, fidelity: Fidelity) -> Result<(), String> {
    let everything = amounts(&[("v/nic1", "9"), ("v/nic2", "9"), ("hugepages-2Mi", "1Gi")]);
    let request = TopologyPodRequest {
        pod,
        overhead: &ResourceList::new(),
    };
    filter(Some(topology), &everything, &request, fidelity)
        .map_err(|rejection| rejection.to_string())
}

fn exact(topology: &NodeTopology, pod: &Pod) -> Result<(), String> {
    check(topology, pod, Fidelity::Exact)
}

/// EX-18 and EX-19.
#[test]
fn cpus_and_a_device_go_to_the_zone_that_has_both() {
    let zones = vec![
        zone(0, &[("cpu", "10"), ("memory", "9Gi"), ("v/nic1", "3")]),
        zone(1, &[("cpu", "15"), ("memory", "9Gi"), ("v/nic2", "6")]),
        zone(2, &[("cpu", "15"), ("memory", "9Gi"), ("v/nic1", "3")]),
        zone(3, &[("cpu", "15"), ("memory", "9Gi"), ("v/nic1", "3")]),
    ];
    let allocatable = amounts(&[("v/nic1", "9"), ("v/nic2", "6")]);
    let state = FilterState {
        zones: NumaZones::of(&zones),
        allocatable: &allocatable,
        qos: QosClass::Guaranteed,
    };
    for (card, expected) in [("v/nic1", 2), ("v/nic2", 1)] {
        let asked = amounts(&[("cpu", "12"), ("memory", "1Gi"), (card, "1")]);
        let found = state.find(&asked).map(|node| node.map(NodeId::index));
        assert_eq!(found, Ok(Some(expected)), "{card}");
    }
    let both = amounts(&[("v/nic1", "1"), ("v/nic2", "1")]);
    assert_eq!(state.find(&both), Err(ResourceName::from("v/nic2")));
}

#[test]
fn the_amounts_of_a_container_are_not_available_to_the_next() {
    let zones = || vec![zone(0, &[("cpu", "4"), ("memory", "4Gi")])];
    let two_cpus: Amounts<'_> = &[("cpu", "2"), ("memory", "1Gi")];
    let by_container = topology("container", zones());
    assert_eq!(exact(&by_container, &pod(&[two_cpus, two_cpus])), Ok(()));
    let three = pod(&[two_cpus, two_cpus, two_cpus]);
    let rejected = Err("cannot align container".to_owned());
    assert_eq!(exact(&by_container, &three), rejected);
    let whole = Err("cannot align pod".to_owned());
    assert_eq!(exact(&topology("pod", zones()), &three), whole);
}

#[test]
fn an_init_container_releases_its_amounts_and_a_sidecar_keeps_them() {
    let node = topology(
        "container",
        vec![zone(0, &[("cpu", "4"), ("memory", "4Gi")])],
    );
    let three_cpus: Amounts<'_> = &[("cpu", "3"), ("memory", "1Gi")];
    let mut pod = pod(&[three_cpus]);
    pod.init_containers = vec![container(three_cpus, true)];
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        assert_eq!(check(&node, &pod, fidelity), Ok(()));
    }
    pod.init_containers[0].restartable = true;
    assert_eq!(
        exact(&node, &pod),
        Ok(()),
        "the plugin treats it as terminated"
    );
    let sound = check(&node, &pod, Fidelity::Sound);
    assert_eq!(sound, Err("cannot align container".to_owned()));
    let by_pod = topology("pod", node.zones.clone());
    assert_eq!(exact(&by_pod, &pod), Ok(()));
    let sound = check(&by_pod, &pod, Fidelity::Sound);
    assert_eq!(sound, Err("cannot align pod".to_owned()));

    pod.init_containers = vec![container(&[("cpu", "5"), ("memory", "1Gi")], true)];
    let rejected = Err("cannot align init container".to_owned());
    assert_eq!(exact(&node, &pod), rejected);
    pod.init_containers[0].restartable = true;
    let rejected = Err("cannot align sidecar container".to_owned());
    assert_eq!(exact(&node, &pod), rejected);
}

#[test]
fn only_guaranteed_pods_need_cpus_of_one_zone_but_every_pod_its_devices() {
    let zones = vec![zone(0, &[("cpu", "1"), ("memory", "1Gi"), ("v/nic1", "1")])];
    let node = topology("container", zones);
    let burstable = |requests| {
        let mut pod = pod(&[]);
        pod.containers = vec![container(requests, false)];
        pod
    };
    assert_eq!(exact(&node, &burstable(&[("cpu", "8")])), Ok(()));
    let rejected = Err("cannot align container".to_owned());
    assert_eq!(
        exact(&node, &burstable(&[("cpu", "8"), ("v/nic1", "2")])),
        rejected
    );
    // No zone reports these pages: every pod is rejected.
    assert_eq!(
        exact(&node, &burstable(&[("cpu", "1"), ("hugepages-2Mi", "2Mi")])),
        rejected
    );
    // No zone reports this device either, which need not belong to a zone.
    assert_eq!(
        exact(&node, &burstable(&[("cpu", "1"), ("v/nic2", "1")])),
        Ok(())
    );
    // A device that the node does not have.
    assert_eq!(
        exact(&node, &burstable(&[("cpu", "1"), ("v/none", "1")])),
        rejected
    );
    assert_eq!(
        exact(&node, &burstable(&[("cpu", "1"), ("v/none", "0")])),
        Ok(())
    );
}

#[test]
fn a_best_effort_pod_passes_unless_it_requests_a_device() {
    let node = topology("container", vec![zone(0, &[("v/nic1", "0")])]);
    let mut pod = pod(&[]);
    pod.containers = vec![container(&[], false)];
    assert_eq!(exact(&node, &pod), Ok(()));
    pod.containers = vec![container(&[("v/nic1", "1")], false)];
    assert!(exact(&node, &pod).is_err());
}

#[test]
fn other_policies_and_nodes_without_topology_are_not_filtered() {
    let mut node = topology("container", Vec::new());
    let pod = pod(&[&[("cpu", "2"), ("memory", "1Gi")]]);
    assert!(exact(&node, &pod).is_err());
    node.attributes[0].value = "restricted".to_owned();
    assert_eq!(exact(&node, &pod), Ok(()));
    let request = TopologyPodRequest {
        pod: &pod,
        overhead: &ResourceList::new(),
    };
    let silent = filter(None, &ResourceList::new(), &request, Fidelity::Exact);
    assert_eq!(silent, Ok(()));
}

#[test]
fn two_zones_with_one_id_are_an_error_and_not_a_panic() {
    let zones = vec![
        zone(0, &[("cpu", "4"), ("memory", "4Gi")]),
        zone(0, &[("cpu", "1"), ("memory", "4Gi")]),
    ];
    let request = pod(&[&[("cpu", "2"), ("memory", "1Gi")]]);
    let rejected = Err("inconsistent resource accounting".to_owned());
    assert_eq!(exact(&topology("container", zones), &request), rejected);
}

#[test]
fn zones_with_other_names_or_types_are_ignored() {
    let mut zones = vec![zone(0, &[("cpu", "4"), ("memory", "4Gi")]); 6];
    for (zone, name) in zones
        .iter_mut()
        .zip(["node-64", "node-", "node--1", "x-0", "node-1.5"])
    {
        zone.name = name.to_owned();
    }
    zones[5].kind = "Cache".to_owned();
    assert_eq!(NumaZones::of(&zones).as_slice(), []);
}
