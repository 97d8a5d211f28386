use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::node_topology::ZoneResource;
use pinfold_core::node_topology::filter::filter;
use pinfold_core::node_topology::manager::Manager;
use pinfold_core::node_topology::request::PodRequest;
use pinfold_core::occupancy::{DeviceSeat, MemoryRow, Occupancy};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;
use proptest::prelude::*;

use super::*;
use crate::content::Content;

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
fn the_example_of_the_design_is_read_and_printed_back_the_same() {
    let object = one(EXAMPLE);
    assert_eq!(object.version, Version::V1Alpha1);
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
        let has = |zone: &&Zone| zone.resources.iter().any(|own| own.name == name);
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
    let Some(Content::List(zones)) = zone.get("zones") else {
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
    // The example reports no memory, which every Guaranteed pod asks for.
    for zone in &mut whole.zones {
        zone.resources.push(ZoneResource {
            name: "memory".into(),
            capacity: 1.into(),
            allocatable: 1.into(),
            available: 1.into(),
        });
    }
    let overhead = ResourceList::new();
    let request = PodRequest {
        pod: &pod,
        overhead: &overhead,
    };
    (0..4)
        .filter(|zone| {
            let mut alone = whole.clone();
            for (i, other) in alone.zones.iter_mut().enumerate() {
                for resource in other.resources.iter_mut().filter(|_| i != *zone) {
                    resource.available = Quantity::ZERO;
                }
            }
            filter(Some(&alone), &allocatable, &request, Fidelity::Sound).is_ok()
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
fn fields_of_others_survive_at_every_level() {
    let object = one(FOREIGN);
    for version in Version::ALL {
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
        [("since".into(), Content::Number("2021".into()))]
    );
    assert_eq!(again.zones[0].attributes[0].rest.len(), 1);
    assert_eq!(again.zones[0].costs[0].rest.len(), 1);
    assert_eq!(again.zones[0].resources[0].rest.len(), 1);
}

#[test]
fn each_word_becomes_two_attributes_and_back() {
    let head = "kind: NodeResourceTopology\nmetadata: {name: a}\nzones: []\n";
    for (word, policy, scope) in POLICY_WORDS {
        let text = format!(
            "apiVersion: {}\n{head}topologyPolicies: [{word}]",
            Version::V1Alpha1.api_version()
        );
        let old = one(&text);
        let new = old.converted(Version::V1Alpha2);
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
        assert_eq!(new.converted(Version::V1Alpha1), old, "{word}");
    }
    for word in ["None", "Restricted", "BestEffort", "Whatever"] {
        let text = format!(
            "apiVersion: {}\n{head}topologyPolicies: [{word}]",
            Version::V1Alpha1.api_version()
        );
        let new = one(&text).converted(Version::V1Alpha2);
        assert_eq!(new.attributes, [], "{word} states no scope");
        assert_eq!(new.topology_policies, [word]);
    }
}

#[test]
fn attributes_win_over_the_word_when_they_become_one() {
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
    let old = one(text).converted(Version::V1Alpha1);
    assert_eq!(old.topology_policies, ["SingleNUMANodePodLevel"]);
    assert_eq!(old.attributes.len(), 1, "what no word can say stays");
}

#[test]
fn what_is_wrong_is_told_with_object_place_and_way_out() {
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
fn zones_of_one_name_and_amounts_that_grow_are_odd() {
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

/// NUMA nodes 0 and 3: four CPUs on the first, memory only on the second.
fn machine() -> Machine {
    let cpu = |id| pinfold_core::cpu_set::CpuId::new(id).expect("small");
    let core = |id| Core {
        id,
        socket: 0,
        die: None,
        l3: None,
        threads: vec![cpu(id), cpu(id + 2)],
    };
    let node = |id, cores, distances| NumaNode {
        id: NodeId::new(id).expect("small"),
        memory: 4 << 30,
        hugepages: vec![HugePages {
            size_kib: 2048,
            count: 256,
        }],
        distances,
        cores,
    };
    Machine::new(MachineParts {
        nodes: vec![
            node(0, vec![core(0), core(1)], vec![10, 17]),
            node(3, Vec::new(), vec![17, 10]),
        ],
        num_cpus: 4,
        num_sockets: 1,
        offline: Default::default(),
    })
    .expect("a machine")
}

#[test]
fn a_node_reports_what_it_has_what_pods_may_use_and_what_is_left() {
    let cpus = |list| pinfold_core::cpu_set::CpuSet::parse(list).expect("a list");
    let node = NodeId::new(0).expect("small");
    let gpu = |id: &str, holder, healthy| DeviceSeat {
        resource: "vendor.com/gpu".into(),
        id: id.to_owned(),
        nodes: NodeSet::single(node),
        holder,
        healthy,
    };
    let occupancy = Occupancy {
        shared: cpus("0,2-3"),
        reserved: cpus("0"),
        memory: vec![MemoryRow {
            node,
            resource: "memory".into(),
            total: 4 << 30,
            allocatable: 3 << 30,
            free: 1 << 30,
        }],
        devices: vec![
            gpu("a", Some(0), true),
            gpu("b", None, true),
            gpu("c", None, false),
        ],
        ..Occupancy::default()
    };
    let settings = Settings {
        topology_policy: "single-numa-node".into(),
        topology_scope: "pod".into(),
        ..Settings::default()
    };
    let object = publish("worker-1", &machine(), &occupancy, &settings);
    let expected = "{\"apiVersion\":\"topology.node.k8s.io/v1alpha2\",\"kind\":\"NodeResourceTopology\",\
        \"metadata\":{\"name\":\"worker-1\",\"labels\":{\"app.kubernetes.io/managed-by\":\"pinfold\"}},\
        \"attributes\":[{\"name\":\"topologyManagerPolicy\",\"value\":\"single-numa-node\"},\
        {\"name\":\"topologyManagerScope\",\"value\":\"pod\"}],\
        \"zones\":[{\"name\":\"node-0\",\"type\":\"Node\",\
        \"costs\":[{\"name\":\"node-0\",\"value\":10},{\"name\":\"node-3\",\"value\":17}],\
        \"resources\":[{\"name\":\"cpu\",\"capacity\":\"4\",\"allocatable\":\"3\",\"available\":\"2\"},\
        {\"name\":\"memory\",\"capacity\":\"4Gi\",\"allocatable\":\"3Gi\",\"available\":\"1Gi\"},\
        {\"name\":\"hugepages-2Mi\",\"capacity\":\"512Mi\",\"allocatable\":\"512Mi\",\"available\":\"512Mi\"},\
        {\"name\":\"vendor.com/gpu\",\"capacity\":\"3\",\"allocatable\":\"2\",\"available\":\"1\"}]},\
        {\"name\":\"node-3\",\"type\":\"Node\",\
        \"costs\":[{\"name\":\"node-0\",\"value\":17},{\"name\":\"node-3\",\"value\":10}],\
        \"resources\":[{\"name\":\"cpu\",\"capacity\":\"0\",\"allocatable\":\"0\",\"available\":\"0\"},\
        {\"name\":\"memory\",\"capacity\":\"4Gi\",\"allocatable\":\"3584Mi\",\"available\":\"3584Mi\"},\
        {\"name\":\"hugepages-2Mi\",\"capacity\":\"512Mi\",\"allocatable\":\"512Mi\",\"available\":\"512Mi\"}]}]}";
    assert_eq!(object.content().to_json(), expected);
    assert_eq!(
        publish("worker-1", &machine(), &occupancy, &settings),
        object
    );
    assert_eq!(one(expected), object);
}

/// What makes a schema structural, and unknown fields survive: every value has a type, every object keeps the rest.
fn check_schema(path: &str, schema: &Content) {
    let is_either = schema.get("x-kubernetes-int-or-string").is_some();
    assert!(
        is_either || schema.get("type").is_some(),
        "{path} has no type"
    );
    if let Some(Content::Map(properties)) = schema.get("properties") {
        let kept = schema.get("x-kubernetes-preserve-unknown-fields");
        assert_eq!(kept, Some(&Content::Bool(true)), "{path} drops fields");
        for (name, property) in properties {
            if !matches!(name.as_str(), "metadata") {
                check_schema(&format!("{path}.{name}"), property);
            }
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(below) {
            check_schema(&format!("{path}[]"), schema);
        }
    }
}

#[test]
fn the_resource_definitions_are_structural_and_lose_no_field() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let table = [
        (
            "noderesourcetopologies",
            GROUP,
            KIND,
            &["v1alpha1", "v1alpha2"][..],
        ),
        (
            "numatopologies",
            "nodeinfo.volcano.sh",
            crate::volcano::KIND,
            &["v1alpha1"],
        ),
    ];
    for (plural, group, kind, versions) in table {
        let path = format!("{folder}/{plural}.yaml");
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let documents = manifest::read(&path, &bytes).unwrap_or_else(|e| panic!("{e}"));
        let object = documents[0].place().content();
        let text = |content: Option<&Content>| match content {
            Some(Content::Text(text)) => text.clone(),
            other => panic!("{path}: {other:?}"),
        };
        let spec = object.get("spec").expect("a spec");
        let name = text(object.get("metadata").and_then(|meta| meta.get("name")));
        assert_eq!(name, format!("{plural}.{group}"));
        assert_eq!(text(spec.get("group")), group);
        assert_eq!(text(spec.get("scope")), "Cluster");
        assert_eq!(
            text(spec.get("names").and_then(|names| names.get("kind"))),
            kind
        );
        let Some(Content::List(found)) = spec.get("versions") else {
            panic!("versions are a list");
        };
        let names: Vec<String> = found.iter().map(|own| text(own.get("name"))).collect();
        assert_eq!(names, versions);
        let stored = found
            .iter()
            .filter(|own| own.get("storage") == Some(&Content::Bool(true)));
        assert_eq!(stored.count(), 1);
        for version in found {
            let schema = version
                .get("schema")
                .and_then(|own| own.get("openAPIV3Schema"));
            check_schema(kind, schema.expect("a schema"));
        }
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        Just("yes".to_owned()),
        Just("017".to_owned()),
        Just("1e3".to_owned()),
        Just("null".to_owned()),
        Just("- a: {b}\n  #c\n".to_owned()),
        Just(" \"quoted\" 'twice' ".to_owned()),
        Just("<&>\u{7f}\u{2028}é".to_owned()),
        "\\PC{1,12}",
    ]
}

fn contents() -> impl Strategy<Value = Content> {
    let leaf = prop_oneof![
        Just(Content::Null),
        any::<bool>().prop_map(Content::Bool),
        any::<i64>().prop_map(Content::from),
        texts().prop_map(Content::Text),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Content::List),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| Content::Map(map.into_iter().collect())),
        ]
    })
}

fn rests() -> impl Strategy<Value = Fields> {
    // No field of the API begins with x.
    prop::collection::btree_map("x[a-z]{1,6}", contents(), 0..3)
        .prop_map(|map| map.into_iter().collect())
}

fn objects() -> impl Strategy<Value = NodeResourceTopology> {
    let amount = || (0_i64..1_000_000).prop_map(|milli| Amount::from(Quantity::milli(milli)));
    let attribute = || {
        let names = prop_oneof![
            texts(),
            Just("topologyManagerPolicy".to_owned()),
            Just("topologyManagerScope".to_owned()),
        ];
        let values = prop_oneof![
            texts(),
            Just("pod".to_owned()),
            Just("container".to_owned()),
            Just("none".to_owned()),
            Just("restricted".to_owned()),
            Just("single-numa-node".to_owned()),
        ];
        (names, values, rests()).prop_map(|(name, value, rest)| Attribute { name, value, rest })
    };
    let resource = (texts(), amount(), amount(), amount(), rests()).prop_map(
        |(name, capacity, allocatable, available, rest)| Resource {
            name,
            capacity,
            allocatable,
            available,
            rest,
        },
    );
    let cost =
        (texts(), any::<i64>(), rests()).prop_map(|(name, value, rest)| Cost { name, value, rest });
    let zone = (
        texts(),
        texts(),
        prop::option::of(texts()),
        prop::collection::vec(cost, 0..3),
        prop::collection::vec(attribute(), 0..2),
        prop::collection::vec(resource, 0..3),
        rests(),
    )
        .prop_map(
            |(name, kind, parent, costs, attributes, resources, rest)| Zone {
                name,
                kind,
                parent,
                costs,
                attributes,
                resources,
                rest,
            },
        );
    let word = prop_oneof![
        texts(),
        (0_usize..6).prop_map(|i| POLICY_WORDS[i].0.to_owned()),
        Just("Restricted".to_owned()),
    ];
    (
        any::<bool>(),
        prop::collection::btree_map(texts(), texts(), 0..3),
        prop::collection::vec(word, 0..3),
        prop::collection::vec(attribute(), 0..4),
        prop::collection::vec(zone, 0..3),
        rests(),
        rests(),
    )
        .prop_map(
            |(first, annotations, topology_policies, attributes, zones, meta_rest, rest)| {
                NodeResourceTopology {
                    version: if first {
                        Version::V1Alpha1
                    } else {
                        Version::V1Alpha2
                    },
                    meta: ObjectMeta {
                        name: "worker".to_owned(),
                        annotations,
                        rest: meta_rest,
                        ..ObjectMeta::default()
                    },
                    topology_policies,
                    attributes: if first { Vec::new() } else { attributes },
                    zones,
                    rest,
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_the_same(object in objects()) {
        let content = object.content();
        prop_assert_eq!(&one(&content.to_json()), &object);
        let yaml = content.to_yaml().expect("plain data");
        prop_assert_eq!(&one(&yaml), &object, "{}", yaml);
    }

    #[test]
    fn policy_and_scope_survive_every_conversion(object in objects()) {
        let before = Manager::of(&object.to_core());
        for version in Version::ALL {
            let after = Manager::of(&object.converted(version).to_core());
            prop_assert_eq!(after.policy, before.policy);
            if before.policy != Default::default() {
                prop_assert_eq!(after.scope, before.scope);
            }
            let back = object.converted(version).converted(object.version);
            let stated = !object.topology_policies.is_empty();
            if object.version == Version::V1Alpha1 && stated {
                prop_assert_eq!(&back, &object);
            }
        }
    }
}
