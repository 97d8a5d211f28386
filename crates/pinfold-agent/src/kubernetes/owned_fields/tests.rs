use serde_json::{Value, json};

use super::*;

fn node() -> NodeRef {
    NodeRef {
        name: "worker-1".to_owned(),
        uid: "node-uid".to_owned(),
    }
}

fn report() -> Value {
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": "worker-1",
            "labels": { "app.kubernetes.io/managed-by": "pinfold" },
            "annotations": { "node.koordinator.sh/cpu-topology": "{}" },
        },
        "topologyPolicies": ["RestrictedPodLevel"],
        "attributes": [{ "name": "topologyManagerPolicy", "value": "restricted" }],
        "zones": [
            { "name": "node-0", "type": "Node", "costs": [{ "name": "node-0", "value": 10 }], "resources": [
                { "name": "cpu", "capacity": "8", "allocatable": "8", "available": "6" },
                { "name": "memory", "capacity": "4Gi", "allocatable": "4Gi", "available": "4Gi" },
            ]},
            { "name": "node-1", "type": "Node", "resources": [
                { "name": "cpu", "capacity": "8", "allocatable": "8", "available": "8" },
            ]},
        ],
    })
}

fn push(list: &mut Value, member: Value) {
    list.as_array_mut().unwrap().push(member);
}

/// A merge patch as the server applies it (RFC 7386).
fn apply(target: &Value, patch: &Value) -> Value {
    let Some(changes) = patch.as_object() else {
        return patch.clone();
    };
    let mut members = target.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        match change {
            Value::Null => drop(members.remove(key)),
            change => {
                let before = members.get(key).cloned().unwrap_or_default();
                members.insert(key.clone(), apply(&before, change));
            }
        }
    }
    Value::Object(members)
}

#[test]
fn a_new_object_is_owned_by_the_agent_and_its_node() {
    let object = created(&report(), &node(), 7);
    let meta = &object["metadata"];
    assert_eq!(meta["annotations"][GENERATION], "7");
    assert_eq!(meta["ownerReferences"][0]["uid"], "node-uid");
    assert_eq!(meta["ownerReferences"][0]["kind"], "Node");
    assert_eq!(object["zones"], report()["zones"]);
    assert_eq!(object["topologyPolicies"], report()["topologyPolicies"]);
    assert_eq!(object["attributes"], report()["attributes"]);
    assert_eq!(patch(&object, &merged(&object, &report(), &node())), None);
}

#[test]
fn fields_of_other_writers_are_kept() {
    let mut there = created(&report(), &node(), 1);
    there["metadata"]["labels"]["theirs"] = "label".into();
    there["metadata"]["annotations"]["theirs"] = "annotation".into();
    push(
        &mut there["metadata"]["ownerReferences"],
        json!({ "kind": "Lease", "uid": "other" }),
    );
    push(
        &mut there["attributes"],
        json!({ "name": "theirs", "value": "1" }),
    );
    there["zones"][0]["theirs"] = true.into();
    let gpu =
        json!({ "name": "example.com/gpu", "capacity": "2", "allocatable": "2", "available": "1" });
    push(&mut there["zones"][0]["resources"], gpu.clone());
    push(
        &mut there["zones"],
        json!({ "name": "die-0", "type": "Die" }),
    );
    there["theirs"] = json!({ "a": 1 });
    assert_eq!(
        patch(&there, &merged(&there, &report(), &node())),
        None,
        "nothing of ours changed"
    );

    let mut wanted = report();
    wanted["zones"][0]["resources"][0]["available"] = "2".into();
    wanted["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"] = "[]".into();
    let now = merged(&there, &wanted, &node());
    let mut expected = there.clone();
    expected["zones"][0]["resources"][0]["available"] = "2".into();
    expected["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"] = "[]".into();
    assert_eq!(now, expected);
}

#[test]
fn only_fields_that_the_agent_no_longer_sets_are_removed() {
    let mut there = created(&report(), &node(), 1);
    push(
        &mut there["zones"][0]["resources"],
        json!({ "name": "example.com/gpu", "capacity": "1" }),
    );
    there["metadata"]["annotations"]["theirs"] = "stays".into();
    let mut wanted = report();
    wanted["zones"] = json!([wanted["zones"][0]]);
    wanted["zones"][0]["resources"] = json!([wanted["zones"][0]["resources"][0]]);
    wanted["metadata"]["annotations"] = json!({ "new": "1" });
    wanted["attributes"] = json!([]);
    let fields = wanted.as_object_mut().unwrap();
    fields.remove("topologyPolicies");
    let now = merged(&there, &wanted, &node());
    let names: Vec<_> = named(&now["zones"][0]["resources"])
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["cpu", "example.com/gpu"]);
    assert_eq!(now["zones"].as_array().unwrap().len(), 1);
    assert_eq!(now["attributes"], json!([]));
    assert!(now.get("topologyPolicies").is_none());
    let annotations = now["metadata"]["annotations"].as_object().unwrap();
    assert!(annotations.contains_key("theirs") && annotations.contains_key("new"));
    assert!(!annotations.contains_key("node.koordinator.sh/cpu-topology"));
    assert_eq!(patch(&now, &merged(&now, &wanted, &node())), None);
}

#[test]
fn a_recreated_node_becomes_the_owner() {
    let there = created(&report(), &node(), 1);
    let anew = NodeRef {
        uid: "another".to_owned(),
        ..node()
    };
    let now = merged(&there, &report(), &anew);
    let owners = now["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["uid"], "another");
}

#[test]
fn members_of_spec_are_replaced_as_a_whole() {
    let wanted = |cpus: Value| {
        json!({
            "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
            "kind": "Numatopology",
            "metadata": { "name": "worker-1" },
            "spec": { "cpuDetail": cpus, "policies": { "CPUManagerPolicy": "static" } },
        })
    };
    let mut there = created(&wanted(json!({ "0": {}, "1": { "core": 1 } })), &node(), 1);
    there["spec"]["theirs"] = 1.into();
    let now = merged(&there, &wanted(json!({ "1": { "core": 1 } })), &node());
    assert_eq!(now["spec"]["cpuDetail"], json!({ "1": { "core": 1 } }));
    assert_eq!(now["spec"]["theirs"], 1);
    assert!(now["metadata"].get("labels").is_none());
    let patch = patch(&there, &now).unwrap();
    assert_eq!(patch, json!({ "spec": { "cpuDetail": { "0": null } } }));
}

#[test]
fn applying_the_patch_gives_the_wanted_object() {
    let mut there = created(&report(), &node(), 1);
    there["metadata"]["annotations"]["theirs"] = "x".into();
    let mut wanted = report();
    wanted["zones"][1]["resources"] = json!([]);
    wanted["metadata"]["labels"] = json!({});
    let now = merged(&there, &wanted, &node());
    let patch = patch(&there, &now).unwrap();
    assert_eq!(apply(&there, &patch), now);
    assert!(
        patch.get("topologyPolicies").is_none(),
        "only what changed is sent"
    );
}

#[test]
fn an_invalid_object_is_repaired_without_a_panic() {
    for odd in [
        json!(null),
        json!(1),
        json!("x"),
        json!([1, null, "x"]),
        json!({}),
    ] {
        let there = json!({
            "metadata": { "annotations": odd, "labels": odd, "ownerReferences": odd },
            "zones": odd, "attributes": odd, "spec": odd, "topologyPolicies": odd,
        });
        let now = merged(&there, &report(), &node());
        assert_eq!(named(&now["zones"]).count(), 2);
        assert_eq!(patch(&now, &merged(&now, &report(), &node())), None);
    }
    let mut there = created(&report(), &node(), 1);
    there["metadata"]["annotations"][OWNED] = "{\"zones\":7".into();
    there["zones"][0]["resources"] = "none".into();
    let now = merged(&there, &report(), &node());
    assert_eq!(named(&now["zones"][0]["resources"]).count(), 2);
}
