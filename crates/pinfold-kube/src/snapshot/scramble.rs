//! [`Scrambler`]: replaces names in a snapshot, each by the same other name everywhere.
//!
//! Names of nodes, namespaces, pods and containers, uids, and the values of labels are replaced in ascending order, so
//! that equal scores still choose the same node. Selectors, tolerations and reports have the same replacements, so that
//! they match as before. Numbers, resource names, keys of labels and the values that a dialect reads stay.

use std::collections::{BTreeMap, BTreeSet};

use super::is_read;
use crate::json_value::JsonValue;
use crate::manifest::value::LocatedValue;

/// What a text names, in the order in which a text that names several things gets its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameKind {
    Node,
    Namespace,
    Pod,
    Container,
    Uid,
    Value,
}

impl NameKind {
    fn prefix(self) -> &'static str {
        match self {
            NameKind::Node => "node",
            NameKind::Namespace => "namespace",
            NameKind::Pod => "pod",
            NameKind::Container => "container",
            NameKind::Uid => "uid",
            NameKind::Value => "value",
        }
    }
}

/// Texts that say nothing about a cluster, and that reports use for other things than names.
const PUBLIC: [&str; 18] = [
    "",
    "Node",
    "amd64",
    "arm64",
    "cpu",
    "default",
    "default-scheduler",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "linux",
    "main",
    "memory",
    "none",
    "pods",
    "static",
    "volcano",
    "windows",
];

/// Replaces names, the same everywhere.
#[derive(Clone, Debug, Default)]
pub struct Scrambler {
    found: BTreeSet<(NameKind, String)>,
    replacements: BTreeMap<String, String>,
}

impl Scrambler {
    /// Collects the names of an object. All objects are collected before the first is scrambled.
    pub fn collect(&mut self, object: &mut JsonValue) {
        each_name(object, &mut |kind, text| {
            if !is_public(text) {
                self.found.insert((kind, text.clone()));
            }
        });
    }

    /// Chooses the replacements of all names.
    pub fn choose(&mut self) {
        let mut counts = BTreeMap::<NameKind, usize>::new();
        for (kind, _) in &self.found {
            *counts.entry(*kind).or_default() += 1;
        }
        let mut numbers = BTreeMap::<NameKind, usize>::new();
        for (kind, text) in std::mem::take(&mut self.found) {
            let number = numbers.entry(kind).or_default();
            *number += 1;
            let digits = counts[&kind].to_string().len();
            let replacement = format!("{}-{number:0digits$}", kind.prefix());
            self.replacements.entry(text).or_insert(replacement);
        }
    }

    /// Replaces the names in an object, and leaves out messages of schedulers, which contain names.
    pub fn scramble(&self, object: &mut JsonValue) {
        each_name(object, &mut |_, text| self.replace(text));
        if let Some(JsonValue::Map(status)) = object.get_mut("status") {
            status.retain(|(key, _)| key != "conditions");
        }
        let annotations = object
            .get_mut("metadata")
            .and_then(|meta| meta.get_mut("annotations"));
        each_member(annotations, &mut |_, value| {
            if let JsonValue::Text(text) = value {
                match parsed(text) {
                    Some(mut json) => {
                        self.replace_all(&mut json);
                        *text = json.to_json();
                    }
                    None => self.replace(text),
                }
            }
        });
    }

    fn replace(&self, text: &mut String) {
        if let Some(replacement) = self.replacements.get(text) {
            text.clone_from(replacement);
        }
    }

    /// Replaces all names in the value of an annotation, also in keys.
    fn replace_all(&self, value: &mut JsonValue) {
        match value {
            JsonValue::Text(text) => self.replace(text),
            JsonValue::List(items) => items.iter_mut().for_each(|item| self.replace_all(item)),
            JsonValue::Map(members) => {
                for (key, value) in members {
                    self.replace(key);
                    self.replace_all(value);
                }
            }
            JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => {}
        }
    }
}

/// A mapping or list in the text of an annotation.
fn parsed(text: &str) -> Option<JsonValue> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let is_nested = json.is_object() || json.is_array();
    let value = LocatedValue::of_json(&json, None).ok()?;
    is_nested.then(|| JsonValue::from(&value))
}

/// Whether a text is a number, or says nothing about a cluster.
fn is_public(text: &str) -> bool {
    text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok() || PUBLIC.contains(&text)
}

impl JsonValue {
    fn get_mut(&mut self, key: &str) -> Option<&mut JsonValue> {
        match self {
            JsonValue::Map(members) => {
                let member = members.iter_mut().find(|(own, _)| own == key);
                member.map(|(_, value)| value)
            }
            _ => None,
        }
    }

    fn text_mut(&mut self, key: &str) -> Option<&mut String> {
        match self.get_mut(key)? {
            JsonValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

type Visit<'v> = dyn FnMut(NameKind, &mut String) + 'v;

/// Visits the names of an object outside its annotations.
fn each_name(object: &mut JsonValue, visit: &mut Visit<'_>) {
    let is =
        |wanted: &str| matches!(object.get("kind"), Some(JsonValue::Text(kind)) if kind == wanted);
    let (is_pod, is_namespace) = (is("Pod"), is("Namespace"));
    if let Some(meta) = object.get_mut("metadata") {
        let name = match (is_pod, is_namespace) {
            (true, _) => NameKind::Pod,
            (_, true) => NameKind::Namespace,
            _ => NameKind::Node,
        };
        for (key, kind) in [
            ("name", name),
            ("namespace", NameKind::Namespace),
            ("uid", NameKind::Uid),
        ] {
            visit_member(meta, key, kind, visit);
        }
        each_label(meta.get_mut("labels"), visit);
    }
    let Some(spec) = object.get_mut("spec") else {
        return;
    };
    each_item(spec.get_mut("taints"), &mut |taint| {
        visit_member(taint, "value", NameKind::Value, visit);
    });
    if !is_pod {
        return;
    }
    visit_member(spec, "nodeName", NameKind::Node, visit);
    visit_member(spec, "schedulerName", NameKind::Value, visit);
    each_label(spec.get_mut("nodeSelector"), visit);
    for (list, key, kind) in [
        ("containers", "name", NameKind::Container),
        ("initContainers", "name", NameKind::Container),
        ("resourceClaims", "name", NameKind::Value),
        ("schedulingGates", "name", NameKind::Value),
        ("tolerations", "value", NameKind::Value),
    ] {
        each_item(spec.get_mut(list), &mut |item| {
            visit_member(item, key, kind, visit);
        });
    }
    for key in ["affinity", "topologySpreadConstraints"] {
        if let Some(terms) = spec.get_mut(key) {
            each_selected(terms, visit);
        }
    }
}

fn visit_member(value: &mut JsonValue, key: &str, kind: NameKind, visit: &mut Visit<'_>) {
    if let Some(text) = value.text_mut(key) {
        visit(kind, text);
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "an exclusive reference cannot be copied"
)]
fn each_item(list: Option<&mut JsonValue>, each: &mut dyn FnMut(&mut JsonValue)) {
    if let Some(JsonValue::List(items)) = list {
        items.iter_mut().for_each(each);
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "an exclusive reference cannot be copied"
)]
fn each_member(map: Option<&mut JsonValue>, each: &mut dyn FnMut(&str, &mut JsonValue)) {
    if let Some(JsonValue::Map(members)) = map {
        for (key, value) in members {
            each(key, value);
        }
    }
}

/// Visits the values of labels, except of those that a dialect reads.
fn each_label(labels: Option<&mut JsonValue>, visit: &mut Visit<'_>) {
    each_member(labels, &mut |key, value| match value {
        JsonValue::Text(text) if !is_read(key) => visit(NameKind::Value, text),
        _ => {}
    });
}

/// Visits what affinities and spread constraints select: values of labels, names of nodes and namespaces.
fn each_selected(terms: &mut JsonValue, visit: &mut Visit<'_>) {
    match terms {
        JsonValue::List(items) => items.iter_mut().for_each(|item| each_selected(item, visit)),
        JsonValue::Map(members) => {
            let key = members.iter().find_map(|(key, value)| match value {
                JsonValue::Text(text) if key == "key" => Some(text.clone()),
                _ => None,
            });
            let is_kept = key.is_some_and(|key| is_read(&key));
            for (name, value) in members {
                match name.as_str() {
                    "values" if is_kept => {}
                    "values" => each_text(value, NameKind::Value, visit),
                    "namespaces" => each_text(value, NameKind::Namespace, visit),
                    "matchLabels" => each_label(Some(value), visit),
                    _ => each_selected(value, visit),
                }
            }
        }
        _ => {}
    }
}

fn each_text(list: &mut JsonValue, kind: NameKind, visit: &mut Visit<'_>) {
    each_item(Some(list), &mut |item| {
        if let JsonValue::Text(text) = item {
            visit(kind, text);
        }
    });
}
