//! Parses YAML into [`LocatedValue`] trees. The only module that uses the YAML library.
//!
//! Values are parsed as `kubectl` does: the rules of YAML 1.1 (`yes` is a boolean, `017` is fifteen, `<<` merges),
//! mapping keys are texts, and duplicate keys are errors.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Budget, Error, Location, Options, Spanned};

use super::value::{LocatedValue, ManifestMember, ManifestValue};
use super::{MAX_ALIASED_NODES, MAX_ALIASES, MAX_DEPTH, MAX_DOCUMENTS, MAX_NODES};
use crate::diagnostic::{DiagnosticKind, Position};

/// An error in a YAML text, with its position.
pub(super) struct YamlError {
    pub(super) at: Option<Position>,
    pub(super) problem: DiagnosticKind,
    pub(super) hint: Option<String>,
}

/// Parses all documents that are not empty.
pub(super) fn documents(text: &str) -> Result<Vec<LocatedValue>, YamlError> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| explain(&error))
}

fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_depth = MAX_DEPTH;
    budget.flow_nesting_limit = MAX_DEPTH;
    budget.max_aliases = MAX_ALIASES;
    budget.max_anchors = MAX_ALIASES;
    budget.max_documents = MAX_DOCUMENTS;
    budget.max_nodes = MAX_NODES;
    budget.max_events = MAX_NODES * 2;
    budget.max_recorded_anchor_events = MAX_ALIASED_NODES;
    let mut options = Options::default();
    options.alias_limits.max_total_replayed_events = MAX_ALIASED_NODES;
    options.budget = Some(budget);
    options.legacy_octal_numbers = true;
    options.with_snippet = false;
    options
}

fn explain(error: &Error) -> YamlError {
    let error = error.without_snippet();
    let (problem, hint) = match error {
        Error::AliasError {
            error, locations, ..
        } => {
            let at = locations.primary_location().and_then(position);
            return YamlError {
                at,
                ..explain(error)
            };
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.clone().unwrap_or_default();
            (DiagnosticKind::DuplicateKey(key), Some("keep one of them"))
        }
        Error::Budget { breach, .. } => (DiagnosticKind::TooComplex(limit(breach)), None),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => {
            let limit = format!("aliases stand for more than {MAX_ALIASED_NODES} values");
            (DiagnosticKind::TooComplex(limit), Some("write them out"))
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            let limit = "an alias stands for a value that contains it";
            (DiagnosticKind::TooComplex(limit.to_owned()), None)
        }
        _ if message(error).contains("recursion limit") => {
            let depth = MAX_DEPTH + 1;
            (
                DiagnosticKind::TooComplex(limit(&BudgetBreach::Depth { depth })),
                None,
            )
        }
        _ => (DiagnosticKind::NotYaml(message(error)), None),
    };
    YamlError {
        at: error.location().and_then(position),
        problem,
        hint: hint.map(str::to_owned),
    }
}

/// The limit that was exceeded.
fn limit(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { .. } => format!("more than {MAX_DEPTH} levels of nesting"),
        BudgetBreach::Documents { .. } => format!("more than {MAX_DOCUMENTS} documents"),
        BudgetBreach::Events { .. } | BudgetBreach::Nodes { .. } => {
            format!("more than {MAX_NODES} values")
        }
        _ => format!(
            "more than {MAX_ALIASES} aliases, or more than {MAX_ALIASED_NODES} values in them"
        ),
    }
}

/// The library's message without the position, which is reported separately.
fn message(error: &Error) -> String {
    let text = error.to_string();
    let (first, _) = text.split_once('\n').unwrap_or((&text, ""));
    let (message, _) = first.split_once(" at line ").unwrap_or((first, ""));
    message.trim().to_owned()
}

fn position(location: Location) -> Option<Position> {
    (location.line() > 0).then(|| Position {
        line: location.line(),
        column: location.column(),
    })
}

impl<'de> Deserialize<'de> for LocatedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<ManifestValue>::deserialize(deserializer)?;
        Ok(Self {
            at: position(spanned.referenced),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for ManifestValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ManifestValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    super::value::visit_scalars!();

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<ManifestValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ManifestValue, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = items.next_element()? {
            list.push(node);
        }
        Ok(ManifestValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ManifestValue, A::Error> {
        let mut members = Vec::new();
        while let Some(LocatedValue { at, value }) = entries.next_key()? {
            let key = match value {
                ManifestValue::Text(text) | ManifestValue::Number(text) => text,
                ManifestValue::Bool(value) => value.to_string(),
                ManifestValue::Null => "null".to_owned(),
                ManifestValue::List(_) | ManifestValue::Map(_) => {
                    return Err(A::Error::custom("a key must be a single word"));
                }
            };
            members.push(ManifestMember {
                key,
                key_at: at,
                node: entries.next_value()?,
            });
        }
        Ok(ManifestValue::Map(members))
    }
}
