//! Reads the API server's JSON into [`LocatedValue`] trees without positions.
//!
//! Fields that no reader of this crate uses and that are often most of an object are skipped while parsing.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::value::{LocatedValue, ManifestMember, ManifestValue};
use super::{MAX_DEPTH, MAX_NODES};
use crate::diagnostic::{DiagnosticKind, Position};

/// The fields of `status` that are read. A Node's status also lists its images.
const STATUS: &[&str] = &[
    "allocatable",
    "capacity",
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
    "message",
    "nodeInfo",
    "phase",
    "reason",
    "startTime",
];

impl LocatedValue {
    /// A value that stands for something at `at`.
    ///
    /// # Errors
    /// With the limit that it exceeds.
    pub(crate) fn of_json(
        json: &serde_json::Value,
        at: Option<Position>,
    ) -> Result<Self, DiagnosticKind> {
        let mut node = object(&json.to_string())?;
        node.place(at);
        Ok(node)
    }

    /// Sets the position of the value and all values in it.
    fn place(&mut self, at: Option<Position>) {
        self.at = at;
        match &mut self.value {
            ManifestValue::List(items) => items.iter_mut().for_each(|item| item.place(at)),
            ManifestValue::Map(members) => {
                members.iter_mut().for_each(|member| member.node.place(at));
            }
            _ => {}
        }
    }
}

/// Reads one object. If a key is repeated in a mapping, its last value counts, as for the API server.
pub(super) fn object(json: &str) -> Result<LocatedValue, DiagnosticKind> {
    let mut budget = Budget::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let read = ValueSeed::object(&mut budget)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match budget.exceeded {
        Some(limit) => Err(DiagnosticKind::TooComplex(limit)),
        None => read.map_err(|error| DiagnosticKind::Unexpected {
            expected: "JSON".to_owned(),
            found: error.to_string(),
        }),
    }
}

/// The limits of a whole object.
pub(super) struct Budget {
    /// Values that may still be read.
    values: usize,
    /// The limit that was exceeded.
    exceeded: Option<String>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            values: MAX_NODES,
            exceeded: None,
        }
    }
}

/// The part of an object that a mapping is.
#[derive(Clone, Copy)]
enum Section {
    Object,
    Metadata,
    Status,
    Other,
}

impl Section {
    /// The part that a member is; `None` if it is skipped.
    fn member(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Section::Object, "metadata") => Some(Section::Metadata),
            (Section::Object, "status") => Some(Section::Status),
            (Section::Metadata, "managedFields") => None,
            (Section::Status, key) if !STATUS.contains(&key) => None,
            _ => Some(Section::Other),
        }
    }
}

/// Reads one value within the limits.
pub(super) struct ValueSeed<'b> {
    section: Section,
    /// Levels of nesting that are left.
    depth: usize,
    budget: &'b mut Budget,
}

impl<'b> ValueSeed<'b> {
    /// The seed of a whole object.
    pub(super) fn object(budget: &'b mut Budget) -> Self {
        Self {
            section: Section::Object,
            depth: MAX_DEPTH,
            budget,
        }
    }

    /// The seed of a member of a whole object; `None` if it is skipped.
    pub(super) fn member(key: &str, budget: &'b mut Budget) -> Option<Self> {
        Some(Self {
            section: Section::Object.member(key)?,
            depth: MAX_DEPTH - 1,
            budget,
        })
    }
}

impl ValueSeed<'_> {
    /// The seed of a value in this list or mapping.
    fn inner<E: serde::de::Error>(&mut self, section: Section) -> Result<ValueSeed<'_>, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(ValueSeed {
                section,
                depth,
                budget: self.budget,
            }),
            None => Err(self.exceed(format!("more than {MAX_DEPTH} levels of nesting"))),
        }
    }

    fn exceed<E: serde::de::Error>(&mut self, limit: String) -> E {
        let error = E::custom(&limit);
        self.budget.exceeded = Some(limit);
        error
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = LocatedValue;

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<LocatedValue, D::Error> {
        match self.budget.values.checked_sub(1) {
            Some(left) => self.budget.values = left,
            None => return Err(self.exceed(format!("more than {MAX_NODES} values"))),
        }
        let value = from.deserialize_any(self)?;
        Ok(LocatedValue { at: None, value })
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = ManifestValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    super::value::visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<ManifestValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(self.inner(Section::Other)?)? {
            items.push(item);
        }
        Ok(ManifestValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut from: A) -> Result<ManifestValue, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(key) = from.next_key::<String>()? {
            match self.section.member(&key) {
                Some(section) => {
                    let value = from.next_value_seed(self.inner(section)?)?;
                    members.insert(key, value);
                }
                None => {
                    from.next_value::<IgnoredAny>()?;
                }
            }
        }
        let members = members.into_iter().map(|(key, node)| ManifestMember {
            key,
            key_at: None,
            node,
        });
        Ok(ManifestValue::Map(members.collect()))
    }
}
