//! [`LocatedValue`]: a YAML value with its position in the file.

use crate::diagnostic::Position;
use crate::json_value::{self, JsonValue};

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LocatedValue {
    pub(crate) at: Option<Position>,
    pub(crate) value: ManifestValue,
}

/// A YAML value as JSON, which is how Kubernetes reads it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ManifestValue {
    Null,
    Bool(bool),
    /// A number in decimal notation.
    Number(String),
    Text(String),
    List(Vec<LocatedValue>),
    /// Members in order, without duplicate keys.
    Map(Vec<ManifestMember>),
}

/// One member of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManifestMember {
    pub(crate) key: String,
    pub(crate) key_at: Option<Position>,
    pub(crate) node: LocatedValue,
}

/// The methods of a [`Visitor`](serde::de::Visitor) of [`ManifestValue`] for everything but lists and mappings.
macro_rules! visit_scalars {
    () => {
        super::value::visit_scalars!(number i64 visit_i64, u64 visit_u64, i128 visit_i128, u128 visit_u128, f64 visit_f64);

        fn visit_unit<E>(self) -> Result<ManifestValue, E> {
            Ok(ManifestValue::Null)
        }

        fn visit_none<E>(self) -> Result<ManifestValue, E> {
            Ok(ManifestValue::Null)
        }

        fn visit_bool<E>(self, value: bool) -> Result<ManifestValue, E> {
            Ok(ManifestValue::Bool(value))
        }

        fn visit_str<E>(self, text: &str) -> Result<ManifestValue, E> {
            Ok(ManifestValue::Text(text.to_owned()))
        }

        fn visit_string<E>(self, text: String) -> Result<ManifestValue, E> {
            Ok(ManifestValue::Text(text))
        }
    };
    (number $($type:ident $method:ident),+) => {
        $(fn $method<E>(self, value: $type) -> Result<ManifestValue, E> {
            Ok(ManifestValue::Number(value.to_string()))
        })+
    };
}
pub(super) use visit_scalars;

impl LocatedValue {
    /// The value for messages: its type and, if short, its content.
    pub(crate) fn described(&self) -> String {
        match &self.value {
            ManifestValue::Null => "nothing".to_owned(),
            ManifestValue::Bool(value) => format!("the boolean {value}"),
            ManifestValue::Number(text) => format!("the number {text}"),
            ManifestValue::Text(text) if text.chars().count() <= 60 => format!("{text:?}"),
            ManifestValue::Text(text) => {
                let start: String = text.chars().take(50).collect();
                format!("{start:?}…")
            }
            ManifestValue::List(_) => "a list".to_owned(),
            ManifestValue::Map(_) => "a mapping".to_owned(),
        }
    }
}

impl From<&LocatedValue> for JsonValue {
    fn from(node: &LocatedValue) -> Self {
        match &node.value {
            ManifestValue::Null => JsonValue::Null,
            ManifestValue::Bool(value) => JsonValue::Bool(*value),
            ManifestValue::Number(text) => json_value::number(text),
            ManifestValue::Text(text) => JsonValue::Text(text.clone()),
            ManifestValue::List(items) => {
                JsonValue::List(items.iter().map(JsonValue::from).collect())
            }
            ManifestValue::Map(members) => JsonValue::Map(
                members
                    .iter()
                    .map(|member| (member.key.clone(), JsonValue::from(&member.node)))
                    .collect(),
            ),
        }
    }
}
