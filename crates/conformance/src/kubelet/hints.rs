//! Hints in the format of the vectors.

use pinfold_core::hint::{ProviderHints, ResourceHints};
use pinfold_core::name::ResourceName;
use serde_json::{Map, Value, json};

/// `null` for a manager without a preference, else a map of resources to lists.
pub(super) fn to_json(hints: &ProviderHints) -> Value {
    if hints.rows.is_empty() {
        return Value::Null;
    }
    rows(hints)
}

/// A map of resources to lists.
pub(super) fn rows(hints: &ProviderHints) -> Value {
    let row =
        |(resource, hints): &(ResourceName, ResourceHints)| (resource.to_string(), list(hints));
    Value::Object(hints.rows.iter().map(row).collect::<Map<String, Value>>())
}

fn list(hints: &ResourceHints) -> Value {
    match hints {
        ResourceHints::DontCare => Value::Null,
        ResourceHints::Unsatisfiable => json!([]),
        ResourceHints::Family(family) => json!(family.list()),
        ResourceHints::List(list) => json!(list),
    }
}
