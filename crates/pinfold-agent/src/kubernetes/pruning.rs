//! Fields that the API server drops because the definition of a custom resource lacks them.
//!
//! The server prunes unknown fields without an error. An agent that compares its object with the stored one would write
//! them again for ever; and every write of a Numatopology makes vc-scheduler forget the CPUs that it has assigned
//! since. So the agent learns from the server's responses which fields are dropped, and publishes the others.

use std::collections::BTreeSet;

use serde_json::Value;

/// Names of the members that lead to a field; [`EACH`] for the items of a list.
pub(super) type FieldPath = Vec<String>;

/// The items of a list.
const EACH: &str = "[]";

/// The fields of `sent` that the response to it lacks, except those of `metadata`.
pub(super) fn pruned_fields(sent: &Value, response: &Value) -> BTreeSet<FieldPath> {
    let mut found = BTreeSet::new();
    for (key, value) in sent.as_object().into_iter().flatten() {
        if key != "metadata" {
            compare(&mut vec![key.clone()], value, response.get(key), &mut found);
        }
    }
    found
}

fn compare(
    path: &mut FieldPath,
    sent: &Value,
    response: Option<&Value>,
    found: &mut BTreeSet<FieldPath>,
) {
    match (sent, response) {
        (_, None) => {
            found.insert(path.clone());
        }
        (Value::Object(members), Some(response)) => {
            for (key, value) in members {
                path.push(key.clone());
                compare(path, value, response.get(key), found);
                path.pop();
            }
        }
        (Value::Array(items), Some(Value::Array(others))) if items.len() == others.len() => {
            path.push(EACH.to_owned());
            for (item, other) in items.iter().zip(others) {
                compare(path, item, Some(other), found);
            }
            path.pop();
        }
        _ => {}
    }
}

/// The object without these fields.
pub(super) fn without_fields(object: &Value, fields: &BTreeSet<FieldPath>) -> Value {
    let mut object = object.clone();
    for path in fields {
        remove(&mut object, path);
    }
    object
}

fn remove(value: &mut Value, path: &[String]) {
    match (value, path) {
        (Value::Object(members), [last]) => drop(members.remove(last)),
        (Value::Object(members), [first, rest @ ..]) => {
            if let Some(member) = members.get_mut(first) {
                remove(member, rest);
            }
        }
        (Value::Array(items), [first, rest @ ..]) if first == EACH => {
            items.iter_mut().for_each(|item| remove(item, rest));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_the_response_lacks_is_pruned_at_any_depth() {
        let sent = json!({
            "metadata": { "name": "a" },
            "attributes": [{ "name": "x" }],
            "spec": { "cpuDetail": { "0": {} }, "podAllocations": [{ "uid": "u" }] },
            "zones": [{ "name": "node-0", "attributes": [] }, { "name": "node-1" }],
        });
        let response = json!({
            "spec": { "cpuDetail": { "0": {} } },
            "zones": [{ "name": "node-0" }, { "name": "node-1" }],
        });
        let pruned = pruned_fields(&sent, &response);
        let paths: Vec<String> = pruned.iter().map(|path| path.join(".")).collect();
        assert_eq!(
            paths,
            ["attributes", "spec.podAllocations", "zones.[].attributes"]
        );
        let mut expected = response;
        expected["metadata"] = json!({ "name": "a" });
        assert_eq!(without_fields(&sent, &pruned), expected);
    }

    #[test]
    fn a_field_with_another_value_is_not_pruned() {
        let sent = json!({ "spec": { "a": 1, "b": [1, 2] } });
        for response in [json!({ "spec": { "a": 2, "b": [1] } }), sent.clone()] {
            assert_eq!(pruned_fields(&sent, &response), BTreeSet::new());
        }
    }
}
