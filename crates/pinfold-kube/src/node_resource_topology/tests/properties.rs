//! Properties that hold for every object.

use pinfold_cluster::node_topology::topology_manager::TopologyManagerConfig;
use proptest::prelude::*;

use super::*;

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

fn contents() -> impl Strategy<Value = JsonValue> {
    let leaf = prop_oneof![
        Just(JsonValue::Null),
        any::<bool>().prop_map(JsonValue::Bool),
        any::<i64>().prop_map(JsonValue::from),
        texts().prop_map(JsonValue::Text),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(JsonValue::List),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| JsonValue::Map(map.into_iter().collect())),
        ]
    })
}

fn rests() -> impl Strategy<Value = JsonFields> {
    // No field of the API begins with x.
    prop::collection::btree_map("x[a-z]{1,6}", contents(), 0..3)
        .prop_map(|map| map.into_iter().collect())
}

fn objects() -> impl Strategy<Value = NodeResourceTopology> {
    let amount =
        || (0_i64..1_000_000).prop_map(|milli| WrittenQuantity::from(Quantity::milli(milli)));
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
        (names, values, rests()).prop_map(|(name, value, rest)| NrtAttribute { name, value, rest })
    };
    let resource = (texts(), amount(), amount(), amount(), rests()).prop_map(
        |(name, capacity, allocatable, available, rest)| NrtResource {
            name,
            capacity,
            allocatable,
            available,
            rest,
        },
    );
    let cost = (texts(), any::<i64>(), rests()).prop_map(|(name, value, rest)| NrtCost {
        name,
        value,
        rest,
    });
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
            |(name, kind, parent, costs, attributes, resources, rest)| NrtZone {
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
                        NrtVersion::V1Alpha1
                    } else {
                        NrtVersion::V1Alpha2
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
    fn a_written_object_is_read_back_unchanged(object in objects()) {
        let content = object.content();
        prop_assert_eq!(&one(&content.to_json()), &object);
        let yaml = content.to_yaml().expect("plain data");
        prop_assert_eq!(&one(&yaml), &object, "{}", yaml);
    }

    #[test]
    fn policy_and_scope_survive_every_conversion(object in objects()) {
        let before = TopologyManagerConfig::of(&object.to_core());
        for version in NrtVersion::ALL {
            let after = TopologyManagerConfig::of(&object.converted(version).to_core());
            prop_assert_eq!(after.policy, before.policy);
            if before.policy != Default::default() {
                prop_assert_eq!(after.scope, before.scope);
            }
            let back = object.converted(version).converted(object.version);
            let stated = !object.topology_policies.is_empty();
            if object.version == NrtVersion::V1Alpha1 && stated {
                prop_assert_eq!(&back, &object);
            }
        }
    }
}
