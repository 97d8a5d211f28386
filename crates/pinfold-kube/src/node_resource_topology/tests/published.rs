//! Published objects, and the custom resource definitions that API servers validate them with.

use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::occupancy::{DeviceUse, MemoryRow, Occupancy};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::Settings;
use pinfold_core::settings::TopologyScope;

use super::*;

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
fn a_node_reports_capacity_allocatable_and_available() {
    let cpus = |list| pinfold_core::cpu_set::CpuSet::parse(list).expect("a list");
    let node = NodeId::new(0).expect("small");
    let gpu = |id: &str, holder, healthy| DeviceUse {
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
        topology_policy: TopologyPolicy::SingleNumaNode,
        topology_scope: TopologyScope::Pod,
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

/// Checks that a schema is structural and keeps unknown fields: every value has a type.
fn check_schema(path: &str, schema: &JsonValue) {
    let is_either = schema.get("x-kubernetes-int-or-string").is_some();
    assert!(
        is_either || schema.get("type").is_some(),
        "{path} has no type"
    );
    if let Some(JsonValue::Map(properties)) = schema.get("properties") {
        let kept = schema.get("x-kubernetes-preserve-unknown-fields");
        assert_eq!(kept, Some(&JsonValue::Bool(true)), "{path} drops fields");
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
fn the_custom_resource_definitions_are_structural_and_keep_unknown_fields() {
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
        let object = documents[0].root().content();
        let text = |content: Option<&JsonValue>| match content {
            Some(JsonValue::Text(text)) => text.clone(),
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
        let Some(JsonValue::List(found)) = spec.get("versions") else {
            panic!("versions are a list");
        };
        let names: Vec<String> = found.iter().map(|own| text(own.get("name"))).collect();
        assert_eq!(names, versions);
        let stored = found
            .iter()
            .filter(|own| own.get("storage") == Some(&JsonValue::Bool(true)));
        assert_eq!(stored.count(), 1);
        for version in found {
            let schema = version
                .get("schema")
                .and_then(|own| own.get("openAPIV3Schema"));
            check_schema(kind, schema.expect("a schema"));
        }
    }
}
