//! [`JsonValue`]: a JSON value of a Kubernetes object, to be written as JSON or YAML.
//!
//! Fields of an object that this crate does not parse are kept as values and written back, so that reading and writing
//! an object loses nothing.

use std::fmt::Write;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::go::json::push_string;

/// Members of a mapping in order, without duplicate keys.
pub type JsonFields = Vec<(String, JsonValue)>;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number in decimal notation.
    Number(String),
    /// Text.
    Text(String),
    /// Values in order.
    List(Vec<JsonValue>),
    /// Members in order.
    Map(JsonFields),
}

impl JsonValue {
    /// A text value.
    pub fn text(text: impl Into<String>) -> Self {
        JsonValue::Text(text.into())
    }

    /// The member of a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&JsonValue> {
        match self {
            JsonValue::Map(members) => {
                let member = members.iter().find(|(own, _)| own == key);
                member.map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The value as one line of JSON, as Go writes it.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.push_json(&mut out);
        out
    }

    /// The value as YAML.
    ///
    /// # Errors
    /// If the YAML library cannot write it, with its message.
    pub fn to_yaml(&self) -> Result<String, String> {
        serde_saphyr::to_string(self).map_err(|error| error.to_string())
    }

    fn push_json(&self, out: &mut String) {
        match self {
            JsonValue::Null => out.push_str("null"),
            JsonValue::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            JsonValue::Number(text) if is_json_number(text) => out.push_str(text),
            JsonValue::Number(text) | JsonValue::Text(text) => push_text(out, text),
            JsonValue::List(items) => {
                let mut separator = '[';
                for item in items {
                    out.push(separator);
                    item.push_json(out);
                    separator = ',';
                }
                out.push_str(if separator == '[' { "[]" } else { "]" });
            }
            JsonValue::Map(members) => {
                let mut separator = '{';
                for (key, value) in members {
                    out.push(separator);
                    push_text(out, key);
                    out.push(':');
                    value.push_json(out);
                    separator = ',';
                }
                out.push_str(if separator == '{' { "{}" } else { "}" });
            }
        }
    }
}

/// Writes a string as Go does; characters that YAML does not allow are escaped too, so that the JSON is also YAML.
fn push_text(out: &mut String, text: &str) {
    let mut quoted = String::new();
    push_string(&mut quoted, text);
    for c in quoted.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

/// A number of YAML as JSON: infinities and NaN become texts, and -0 becomes 0.
pub(crate) fn number(text: &str) -> JsonValue {
    match text {
        "-0" => JsonValue::Number("0".to_owned()),
        text if is_json_number(text) => JsonValue::Number(text.to_owned()),
        text => JsonValue::Text(text.to_owned()),
    }
}

/// Whether it is a number in JSON; infinities and NaN are numbers in YAML only.
fn is_json_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
}

impl From<&str> for JsonValue {
    fn from(text: &str) -> Self {
        JsonValue::Text(text.to_owned())
    }
}

impl From<bool> for JsonValue {
    fn from(value: bool) -> Self {
        JsonValue::Bool(value)
    }
}

impl From<i64> for JsonValue {
    fn from(value: i64) -> Self {
        JsonValue::Number(value.to_string())
    }
}

impl From<Vec<JsonValue>> for JsonValue {
    fn from(items: Vec<JsonValue>) -> Self {
        JsonValue::List(items)
    }
}

/// A mapping of these members; those that are `None` are left out.
pub(crate) fn map<const N: usize>(members: [(&str, Option<JsonValue>); N]) -> JsonValue {
    let present = members.into_iter();
    JsonValue::Map(
        present
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
    )
}

impl Serialize for JsonValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            JsonValue::Null => serializer.serialize_unit(),
            JsonValue::Bool(value) => serializer.serialize_bool(*value),
            JsonValue::Number(text) => match (text.parse::<i64>(), text.parse::<u64>()) {
                (Ok(number), _) => serializer.serialize_i64(number),
                (_, Ok(number)) => serializer.serialize_u64(number),
                _ => match text.parse::<f64>() {
                    Ok(number) => serializer.serialize_f64(number),
                    Err(_) => serializer.serialize_str(text),
                },
            },
            JsonValue::Text(text) => serializer.serialize_str(text),
            JsonValue::List(items) => serializer.collect_seq(items),
            JsonValue::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}
