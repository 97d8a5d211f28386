//! Our part of an object among the parts of others.
//!
//! | part | ours |
//! |---|---|
//! | labels, annotations | the keys that we set |
//! | zones | the zones that we name: every field but the resources, and of those the ones that we name |
//! | attributes of the object | those that we name |
//! | `spec` | the members that we set, each as a whole |
//! | every other field | as a whole, if we set it |
//!
//! What we set earlier and set no longer is taken away, also by the agent's next life: the annotation
//! [`OWNED`] says what is ours. Lists cannot be left to the server: in these definitions they are atomic, and an apply
//! would take away the resources that others add to our zones.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_kube::generation::GENERATION;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The annotation that says what in the object is ours.
pub const OWNED: &str = "pinfold.dev/owned";

/// The node that an object is about, and goes away with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeRef {
    pub(super) name: String,
    pub(super) uid: String,
}

/// What in an object is ours.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Owned {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    attributes: BTreeSet<String>,
    /// Names of zones, with the names of resources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    zones: BTreeMap<String, BTreeSet<String>>,
    /// Members of `spec`.
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

    /// What an earlier report said; an annotation that cannot be read says nothing.
    fn noted(found: &Value) -> Self {
        let noted = found["metadata"]["annotations"][OWNED].as_str();
        noted
            .and_then(|noted| serde_json::from_str(noted).ok())
            .unwrap_or_default()
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The members of a list with their names.
fn named(list: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = list.as_array().into_iter().flatten();
    members.filter_map(|member| Some((member["name"].as_str()?, member)))
}

/// A new object: all of it ours.
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

/// The object as it should be: ours as we want it, everything else as it is. The generation stays as it is.
/// What was found must be a mapping with mapped `metadata`.
pub(super) fn merged(found: &Value, desired: &Value, node: &NodeRef) -> Value {
    let before = Owned::noted(found);
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
    object["metadata"]["annotations"][OWNED] = now.text().into();
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
    object
}

/// Says which entry of the journal an object is of.
pub(super) fn set_generation(object: &mut Value, generation: u64) {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations.is_object() || annotations.is_null() {
        annotations[GENERATION] = generation.to_string().into();
    }
}

/// Sets or removes a member.
fn replace(object: &mut Value, key: &str, wanted: &Value) {
    let Some(members) = object.as_object_mut() else {
        return;
    };
    match wanted {
        Value::Null => drop(members.remove(key)),
        wanted => drop(members.insert(key.to_owned(), wanted.clone())),
    }
}

/// Our members of a mapping. Something else in its place, which no server lets through, is replaced.
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

/// Our members of a list of named things: others keep their place, ours keep theirs or come last.
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

/// The object goes away with its node. A node that was made anew has another id.
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

/// The merge patch (RFC 7386) from one object to another; `None` if they are the same.
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
