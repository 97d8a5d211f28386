//! Merges the agent's fields into an object that other writers share.
//!
//! | part of the object | owned by the agent |
//! |---|---|
//! | labels, annotations | the keys that it sets |
//! | zones | the zones that it sets: all fields except `resources`, and of those the resources that it sets |
//! | attributes of the object | the attributes that it sets |
//! | `spec` | the members that it sets, each as a whole |
//! | other fields | the fields that it sets, each as a whole |
//!
//! The annotation [`OWNED`] lists the owned fields, so that the agent removes fields it no longer sets, also after a
//! restart. Server-side apply cannot be used: the lists of these resources are atomic, so an apply would remove the
//! resources that other writers add to the agent's zones.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_kube::generation::GENERATION;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The annotation that lists the fields owned by the agent.
pub const OWNED: &str = "pinfold.dev/owned";

/// The Node object that owns a published object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeRef {
    pub(super) name: String,
    pub(super) uid: String,
}

/// The fields of an object that the agent owns.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Owned {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    attributes: BTreeSet<String>,
    /// Names of zones with the names of their resources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    zones: BTreeMap<String, BTreeSet<String>>,
    /// Names of members of `spec`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    spec: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    fields: BTreeSet<String>,
}

const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Owned {
    fn of(desired: &Value) -> Self {
        let keys = |value: &Value| {
            value
                .as_object()
                .into_iter()
                .flat_map(Map::keys)
                .cloned()
                .collect()
        };
        let fields: BTreeSet<String> = keys(desired);
        let parts = ["attributes", "zones", "spec"];
        Self {
            labels: keys(&desired["metadata"]["labels"]),
            annotations: keys(&desired["metadata"]["annotations"]),
            attributes: named(&desired["attributes"])
                .map(|(name, _)| name.to_owned())
                .collect(),
            zones: named(&desired["zones"])
                .map(|(name, zone)| {
                    (
                        name.to_owned(),
                        named(&zone["resources"])
                            .map(|(name, _)| name.to_owned())
                            .collect(),
                    )
                })
                .collect(),
            spec: keys(&desired["spec"]),
            fields: fields
                .into_iter()
                .filter(|key| !IDENTITY.contains(&key.as_str()) && !parts.contains(&key.as_str()))
                .collect(),
        }
    }

    /// The owned fields that the object's annotation lists; none if the annotation is missing or invalid.
    fn annotated(found: &Value) -> Self {
        let text = found["metadata"]["annotations"][OWNED].as_str();
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Whether all these fields are among `others`.
    fn is_within(&self, others: &Self) -> bool {
        let mut zones = self.zones.iter();
        self.labels.is_subset(&others.labels)
            && self.annotations.is_subset(&others.annotations)
            && self.attributes.is_subset(&others.attributes)
            && self.spec.is_subset(&others.spec)
            && self.fields.is_subset(&others.fields)
            && zones.all(|(name, resources)| {
                let other = others.zones.get(name);
                other.is_some_and(|other| resources.is_subset(other))
            })
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The items of a list that have a name.
fn named(list: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = list.as_array().into_iter().flatten();
    members.filter_map(|member| Some((member["name"].as_str()?, member)))
}

/// A new object with the agent's fields.
pub(super) fn created(desired: &Value, node: &NodeRef, generation: u64) -> Value {
    let identity = desired.as_object().into_iter().flatten();
    let identity = identity.filter(|(key, _)| matches!(key.as_str(), "apiVersion" | "kind"));
    let mut bare: Map<String, Value> = identity
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    bare.insert(
        "metadata".to_owned(),
        serde_json::json!({ "name": node.name }),
    );
    let mut object = merged(&Value::Object(bare), desired, node);
    set_generation(&mut object, generation);
    object
}

/// The object `found` with the agent's fields set as in `desired`. Fields of other writers and the generation annotation
/// are kept. `found` and its `metadata` must be JSON objects.
pub(super) fn merged(found: &Value, desired: &Value, node: &NodeRef) -> Value {
    let before = Owned::annotated(found);
    let now = Owned::of(desired);
    let mut object = found.clone();
    let wanted = &desired["metadata"];
    if !before.labels.is_empty() || !now.labels.is_empty() {
        members(
            &mut object["metadata"]["labels"],
            &before.labels,
            &wanted["labels"],
        );
    }
    members(
        &mut object["metadata"]["annotations"],
        &before.annotations,
        &wanted["annotations"],
    );
    owner(&mut object["metadata"]["ownerReferences"], node);
    for field in before.fields.iter().chain(&now.fields) {
        if !IDENTITY.contains(&field.as_str()) {
            replace(&mut object, field, &desired[field]);
        }
    }
    if !before.spec.is_empty() || !now.spec.is_empty() {
        members(&mut object["spec"], &before.spec, &desired["spec"]);
    }
    if !before.attributes.is_empty() || !now.attributes.is_empty() {
        let whole = |_: &Value, wanted: &Value| wanted.clone();
        list(
            &mut object["attributes"],
            &before.attributes,
            &desired["attributes"],
            whole,
        );
    }
    if !before.zones.is_empty() || desired["zones"].is_array() {
        let names = before.zones.keys().cloned().collect();
        list(
            &mut object["zones"],
            &names,
            &desired["zones"],
            |found, wanted| zone(found, &before, wanted),
        );
    }
    // The list of a longer object needs no write of its own: the fields that it has too many do not exist.
    if object != *found || !now.is_within(&before) {
        object["metadata"]["annotations"][OWNED] = now.text().into();
    }
    object
}

/// Sets the annotation with the journal generation.
pub(super) fn set_generation(object: &mut Value, generation: u64) {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations.is_object() || annotations.is_null() {
        annotations[GENERATION] = generation.to_string().into();
    }
}

/// Sets a member, or removes it if the wanted value is null.
fn replace(object: &mut Value, key: &str, wanted: &Value) {
    let Some(members) = object.as_object_mut() else {
        return;
    };
    match wanted {
        Value::Null => drop(members.remove(key)),
        wanted => drop(members.insert(key.to_owned(), wanted.clone())),
    }
}

/// Sets the owned members of a map. A value that is not a map, which no API server stores there, is replaced.
fn members(found: &mut Value, before: &BTreeSet<String>, wanted: &Value) {
    if !found.is_object() {
        *found = Value::Object(Map::new());
    }
    for key in before
        .iter()
        .chain(wanted.as_object().into_iter().flat_map(Map::keys))
    {
        replace(found, key, &wanted[key.as_str()]);
    }
}

/// Sets the owned items of a list of named items. Existing items keep their position; new ones are appended.
fn list(
    found: &mut Value,
    before: &BTreeSet<String>,
    wanted: &Value,
    join: impl Fn(&Value, &Value) -> Value,
) {
    let mut members = match found.take() {
        Value::Array(members) => members,
        _ => Vec::new(),
    };
    let is_wanted = |name: &str| named(wanted).any(|(own, _)| own == name);
    members.retain(|member| {
        let name = member["name"].as_str().unwrap_or_default();
        !before.contains(name) || is_wanted(name)
    });
    for (name, own) in named(wanted) {
        let there = members.iter_mut().find(|member| member["name"] == name);
        match there {
            Some(there) => *there = join(there, own),
            None => members.push(join(&Value::Object(Map::new()), own)),
        }
    }
    *found = Value::Array(members);
}

fn zone(found: &Value, before: &Owned, wanted: &Value) -> Value {
    let mut zone = found.clone();
    let name = wanted["name"].as_str().unwrap_or_default();
    for (key, value) in wanted.as_object().into_iter().flatten() {
        if key != "resources" {
            replace(&mut zone, key, value);
        }
    }
    let none = BTreeSet::new();
    let resources = before.zones.get(name).unwrap_or(&none);
    if !resources.is_empty() || wanted["resources"].is_array() {
        let whole = |_: &Value, wanted: &Value| wanted.clone();
        list(
            &mut zone["resources"],
            resources,
            &wanted["resources"],
            whole,
        );
    }
    zone
}

/// Sets the owner reference to the Node, so that the object is deleted with it. References to an earlier Node of the same
/// name, which has another UID, are removed.
fn owner(found: &mut Value, node: &NodeRef) {
    let mut owners = match found.take() {
        Value::Array(owners) => owners,
        _ => Vec::new(),
    };
    let is_node = |owner: &Value| owner["kind"] == "Node" && owner["apiVersion"] == "v1";
    owners.retain(|owner| !is_node(owner) || owner["uid"] == node.uid.as_str());
    if !owners.iter().any(is_node) {
        owners.push(serde_json::json!({
            "apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid,
        }));
    }
    *found = Value::Array(owners);
}

/// The merge patch (RFC 7386) from one object to another; `None` if they are equal.
pub(super) fn patch(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut members = Map::new();
    for (key, value) in new {
        let change = match old.get(key) {
            None => Some(value.clone()),
            Some(old) => patch(old, value),
        };
        members.extend(change.map(|change| (key.clone(), change)));
    }
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    members.extend(removed.map(|key| (key.clone(), Value::Null)));
    (!members.is_empty()).then_some(Value::Object(members))
}

#[cfg(test)]
mod tests;
