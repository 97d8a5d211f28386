//! Other programs that write the agent's fields of an object: koordlet and NFD write whole NodeResourceTopology objects.
//!
//! The API server records in `managedFields` which client wrote which field last. A client that adds fields of its own
//! is no problem; one that changed or removed the agent's fields is reported, and the agent repairs them or stands
//! back, as configured.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::owned_fields::OWNED;
use pinfold_kube::generation::GENERATION;

/// The agent's name in `managedFields`.
pub(super) const MANAGER: &str = "pinfold-agent";

/// What the agent does if another program writes its fields of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherWriterPolicy {
    /// It writes its fields again.
    Repair,
    /// It leaves the object to the other program.
    #[default]
    Yield,
}

/// The programs that wrote the agent's fields, by resource. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct OtherWriters {
    policy: OtherWriterPolicy,
    found: Arc<Mutex<BTreeMap<String, String>>>,
}

impl OtherWriters {
    pub(super) fn new(policy: OtherWriterPolicy) -> Self {
        Self {
            policy,
            found: Arc::default(),
        }
    }

    pub(super) fn policy(&self) -> OtherWriterPolicy {
        self.policy
    }

    /// Records the writer of a resource. Returns whether it is news.
    pub(super) fn record(&self, resource: &str, writer: Option<&str>) -> bool {
        let mut found = self.found();
        match writer {
            None => found.remove(resource).is_some(),
            Some(writer) => {
                let before = found.insert(resource.to_owned(), writer.to_owned());
                before.as_deref() != Some(writer)
            }
        }
    }

    /// One sentence for each object with another writer.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let found = self.found();
        let problems = found.iter();
        problems
            .map(|(resource, writer)| describe(resource, writer, self.policy))
            .collect()
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The problem, and what to do about it.
pub(super) fn describe(resource: &str, writer: &str, policy: OtherWriterPolicy) -> String {
    match policy {
        OtherWriterPolicy::Repair => {
            format!(
                "{writer} also writes {resource} of this node: the agent repairs it every time; stop one of them"
            )
        }
        OtherWriterPolicy::Yield => format!(
            "{writer} also writes {resource} of this node: the agent leaves the object to it; stop {writer} and \
             delete the object, or set kubernetes.otherWriters: repair"
        ),
    }
}

/// The other program that last wrote fields which `patch` would change: the owner of such a field. If the agent knows
/// that its fields were changed (`is_altered`), also the last one that wrote after the agent, because a removed field
/// has no owner. `None` if there is none.
pub(super) fn other_writer(found: &Value, patch: &Value, is_altered: bool) -> Option<String> {
    let entries = found["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let is_own = |entry: &&Value| entry["manager"] == MANAGER;
    let time = |entry: &Value| entry["time"].as_str().unwrap_or_default().to_owned();
    let (own, others): (Vec<&Value>, Vec<&Value>) = entries.partition(is_own);
    let last_own = own.into_iter().map(time).max().unwrap_or_default();
    let owner = others
        .iter()
        .filter(|entry| touches(&entry["fieldsV1"], patch))
        .max_by_key(|entry| time(entry));
    let later = others
        .iter()
        .filter(|entry| is_altered && time(entry) > last_own)
        .max_by_key(|entry| time(entry));
    let writer = owner.or(later)?;
    Some(writer["manager"].as_str()?.to_owned())
}

/// Whether a set of fields (`FieldsV1`) has one that the patch changes.
fn touches(fields: &Value, patch: &Value) -> bool {
    let ours = ["resourceVersion", OWNED, GENERATION];
    let mut members = patch.as_object().into_iter().flatten();
    members.any(|(key, change)| {
        let Some(below) = fields.get(format!("f:{key}")) else {
            return false;
        };
        let is_leaf = below.as_object().is_none_or(serde_json::Map::is_empty);
        !ours.contains(&key.as_str()) && (is_leaf || !change.is_object() || touches(below, change))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, minute: u32, fields: &Value) -> Value {
        json!({ "manager": manager, "operation": "Update", "fieldsV1": fields,
            "time": format!("2026-11-17T09:{minute:02}:00Z") })
    }

    fn object(entries: &[Value]) -> Value {
        json!({ "metadata": { "managedFields": entries } })
    }

    #[test]
    fn the_owner_of_a_changed_field_is_the_other_writer() {
        let zones = json!({ "f:zones": {}, "f:metadata": { "f:labels": { "f:x": {} } } });
        let own = json!({ "f:attributes": {} });
        let found = object(&[entry(MANAGER, 5, &own), entry("koordlet", 4, &zones)]);
        assert_eq!(
            other_writer(&found, &json!({ "zones": [] }), false).as_deref(),
            Some("koordlet")
        );
        let label = json!({ "metadata": { "labels": { "x": null } } });
        assert_eq!(
            other_writer(&found, &label, false).as_deref(),
            Some("koordlet")
        );
        let other_label = json!({ "metadata": { "labels": { "y": "1" } } });
        assert_eq!(other_writer(&found, &other_label, false), None);
    }

    #[test]
    fn a_removed_field_is_that_of_the_program_that_wrote_last() {
        let zones = json!({ "f:zones": {} });
        let removed = json!({ "attributes": [] });
        let found = |at| object(&[entry(MANAGER, 5, &json!({})), entry("koordlet", at, &zones)]);
        assert_eq!(
            other_writer(&found(6), &removed, true).as_deref(),
            Some("koordlet")
        );
        assert_eq!(other_writer(&found(4), &removed, true), None);
    }

    #[test]
    fn an_object_that_only_the_agent_wrote_has_no_other_writer() {
        let own = json!({ "f:zones": {} });
        let found = object(&[entry(MANAGER, 5, &own)]);
        assert_eq!(other_writer(&found, &json!({ "zones": [] }), false), None);
        assert_eq!(
            other_writer(&json!({}), &json!({ "zones": [] }), true),
            None
        );
    }
}
