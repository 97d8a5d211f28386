use std::sync::Arc;

use pinfold_cluster::node_topology::ZoneResource;
use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_cluster::{PodRequest, TopologyMatchNode};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;

use super::*;
use crate::json_value::JsonValue;

mod predicted;
mod properties;
mod published;

const EXAMPLE: &str = include_str!("../../fixtures/node-resource-topology.yaml");

fn one(text: &str) -> NodeResourceTopology {
    let mut read = super::read("nrt.yaml", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read.value.len(), 1);
    read.value.remove(0)
}

fn errors(text: &str) -> String {
    super::read("nrt.yaml", text.as_bytes())
        .expect_err("wrong")
        .to_string()
}

#[test]
fn the_example_of_the_design_is_written_back_unchanged() {
    let object = one(EXAMPLE);
    assert_eq!(object.version, NrtVersion::V1Alpha1);
    assert_eq!(object.meta.name, "node1");
    assert_eq!(object.topology_policies, ["SingleNUMANodePodLevel"]);
    let mut sums = [Quantity::ZERO; 3];
    for resource in object.zones.iter().flat_map(|zone| &zone.resources) {
        if resource.name == "cpu" {
            let (capacity, allocatable, available) = resource.quantities();
            sums[0] += capacity;
            sums[1] += allocatable;
            sums[2] += available;
        }
    }
    assert_eq!(sums, [110, 90, 55].map(Quantity::from));
    let with = |name: &str| -> Vec<&str> {
        let has = |zone: &&NrtZone| zone.resources.iter().any(|own| own.name == name);
        object
            .zones
            .iter()
            .filter(has)
            .map(|zone| zone.name.as_str())
            .collect()
    };
    assert_eq!(with("vendor/nic1"), ["node-0", "node-2", "node-3"]);
    assert_eq!(with("vendor/nic2"), ["node-1"]);
    for text in [
        object.content().to_yaml().expect("plain data"),
        object.content().to_json(),
    ] {
        assert_eq!(one(&text), object, "{text}");
    }
    let zone = object.content();
    let Some(JsonValue::List(zones)) = zone.get("zones") else {
        panic!("zones are a list");
    };
    let first = "{\"name\":\"node-0\",\"type\":\"Node\",\"resources\":[\
        {\"name\":\"cpu\",\"capacity\":20,\"allocatable\":15,\"available\":10},\
        {\"name\":\"vendor/nic1\",\"capacity\":3,\"allocatable\":3,\"available\":3}]}";
    assert_eq!(zones[0].to_json(), first);
}

/// Whether a Guaranteed pod of one container fits the example, zone by zone.
fn fits(request: &[(&str, i64)]) -> Vec<usize> {
    let requests: ResourceList = request
        .iter()
        .chain(&[("memory", 1)])
        .map(|(name, amount)| ((*name).into(), (*amount).into()))
        .collect();
    let pod = Pod {
        uid: "a".into(),
        name: String::new(),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: requests.clone(),
            limits: requests,
        }],
        pod_requests: None,
        pod_limits: None,
    };
    let allocatable: ResourceList = ["cpu", "vendor/nic1", "vendor/nic2"]
        .map(|name| (name.into(), 100.into()))
        .into();
    let mut whole = one(EXAMPLE).to_core();
    // The example reports no memory, which every Guaranteed pod requests.
    for zone in &mut whole.zones {
        zone.resources.push(ZoneResource {
            name: "memory".into(),
            capacity: 1.into(),
            allocatable: 1.into(),
            available: 1.into(),
        });
    }
    let request = PodRequest::new(Arc::new(pod));
    (0..4)
        .filter(|zone| {
            let mut alone = whole.clone();
            for (i, other) in alone.zones.iter_mut().enumerate() {
                for resource in other.resources.iter_mut().filter(|_| i != *zone) {
                    resource.available = Quantity::ZERO;
                }
            }
            let args = Arc::new(TopologyMatchArgs::default());
            let allocatable = allocatable.clone();
            let node = TopologyMatchNode::new(Some(alone), allocatable, args, Fidelity::Sound);
            node.filter(&request).is_ok()
        })
        .collect()
}

#[test]
fn twelve_cpus_and_a_nic_fit_the_zones_that_have_both_available() {
    assert_eq!(fits(&[("cpu", 12), ("vendor/nic1", 1)]), [2, 3]);
    assert_eq!(fits(&[("cpu", 12), ("vendor/nic2", 1)]), [1]);
}

const FOREIGN: &str = "
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata:
  name: worker-1
  resourceVersion: '77'
  ownerReferences: [{apiVersion: v1, kind: Node, name: worker-1}]
invented: {deep: [1, {deeper: yes}], nothing: null}
attributes:
- {name: topologyManagerPolicy, value: restricted, since: 2021}
zones:
- name: node-0
  type: Node
  parent: rack-1
  colour: red
  costs: [{name: node-0, value: 10, unit: slit}]
  attributes: [{name: a, value: b, c: d}]
  resources:
  - {name: cpu, capacity: '16', allocatable: 15000m, available: 7.5, note: '017'}
";

#[test]
fn unknown_fields_are_kept_at_every_level() {
    let object = one(FOREIGN);
    for version in NrtVersion::ALL {
        let there = object.converted(version);
        let text = there.content().to_yaml().expect("plain data");
        for word in [
            "resourceVersion",
            "ownerReferences",
            "invented",
            "deeper",
            "nothing",
            "colour",
            "slit",
            "note",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(text.contains("15000m"), "{text}");
    }
    let again = one(&object.content().to_yaml().expect("plain data"));
    assert_eq!(again, object);
    assert_eq!(
        again.attributes[0].rest,
        [("since".into(), JsonValue::Number("2021".into()))]
    );
    assert_eq!(again.zones[0].attributes[0].rest.len(), 1);
    assert_eq!(again.zones[0].costs[0].rest.len(), 1);
    assert_eq!(again.zones[0].resources[0].rest.len(), 1);
}

#[test]
fn each_policy_value_becomes_two_attributes_and_back() {
    let head = "kind: NodeResourceTopology\nmetadata: {name: a}\nzones: []\n";
    for (word, policy, scope) in POLICY_WORDS {
        let text = format!(
            "apiVersion: {}\n{head}topologyPolicies: [{word}]",
            NrtVersion::V1Alpha1.api_version()
        );
        let old = one(&text);
        let new = old.converted(NrtVersion::V1Alpha2);
        let attributes: Vec<(&str, &str)> = new
            .attributes
            .iter()
            .map(|own| (own.name.as_str(), own.value.as_str()))
            .collect();
        let expected = [
            ("topologyManagerPolicy", policy),
            ("topologyManagerScope", scope),
        ];
        assert_eq!(attributes, expected);
        assert_eq!(new.converted(NrtVersion::V1Alpha1), old, "{word}");
    }
    for word in ["None", "Restricted", "BestEffort", "Whatever"] {
        let text = format!(
            "apiVersion: {}\n{head}topologyPolicies: [{word}]",
            NrtVersion::V1Alpha1.api_version()
        );
        let new = one(&text).converted(NrtVersion::V1Alpha2);
        assert_eq!(new.attributes, [], "{word} states no scope");
        assert_eq!(new.topology_policies, [word]);
    }
}

#[test]
fn attributes_have_precedence_over_the_policy_value() {
    let text = "
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: a}
topologyPolicies: [RestrictedPodLevel]
attributes:
- {name: topologyManagerPolicy, value: single-numa-node}
- {name: nodeTopologyPodsFingerprint, value: pfp0v001}
zones: []
";
    let old = one(text).converted(NrtVersion::V1Alpha1);
    assert_eq!(old.topology_policies, ["SingleNUMANodePodLevel"]);
    assert_eq!(old.attributes.len(), 1, "what no word can say stays");
    let carried = one(&old.content().to_json());
    assert_eq!(
        carried.attributes,
        [],
        "an attribute means nothing in v1alpha1"
    );
    let names: Vec<String> = carried
        .converted(NrtVersion::V1Alpha2)
        .attributes
        .into_iter()
        .map(|own| own.name)
        .collect();
    let expected = [
        "topologyManagerPolicy",
        "topologyManagerScope",
        "nodeTopologyPodsFingerprint",
    ];
    assert_eq!(names, expected);
}

#[test]
fn errors_name_the_object_the_position_and_a_remedy() {
    let bad = "apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: worker-1}
zones:
- name: node-0
  type: Node
  resources:
  - {name: cpu, capacity: 16GB, allocatable: 15, available: 1}
  - {name: memory, capacity: 1Gi, allocatable: 1Gi}
- name: node-1
  costs: [{name: node-0}]
";
    let expected = "\
nrt.yaml:8:27: NodeResourceTopology/worker-1: zones[0].resources[0].capacity: expected a quantity such as 2, 500m or 4Gi, found \"16GB\" (did you mean \"16G\"?)
nrt.yaml:9:5: NodeResourceTopology/worker-1: zones[0].resources[1].available: expected a quantity such as 2, 500m or 4Gi, found nothing (add the field \"available\")
nrt.yaml:10:3: NodeResourceTopology/worker-1: zones[1].type: expected a type such as Node, found nothing (add the field \"type\")
nrt.yaml:11:11: NodeResourceTopology/worker-1: zones[1].costs[0].value: expected a distance, found nothing (add the field \"value\")";
    assert_eq!(errors(bad), expected);
    let other =
        "apiVersion: topology.node.k8s.io/v1\nkind: NodeResourceTopology\nmetadata: {name: a}";
    assert_eq!(
        errors(other),
        "nrt.yaml:1:13: apiVersion: no matches for kind \"NodeResourceTopology\" in version \
         \"topology.node.k8s.io/v1\" (use topology.node.k8s.io/v1alpha1 or topology.node.k8s.io/v1alpha2)"
    );
}

#[test]
fn equal_zone_names_and_growing_amounts_are_warnings() {
    let text = "
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: a}
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: 1, allocatable: 2, available: 1}]}
- {name: node-0, type: Node}
";
    let read = super::read("nrt.yaml", text.as_bytes()).expect("readable");
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("capacity 1, allocatable 2"),
        "{}",
        warnings[0]
    );
    assert!(
        warnings[1].contains("the first one is at line 6"),
        "{}",
        warnings[1]
    );
}
