//! Converts parsed JSON to [`LocatedValue`] trees without positions.

use serde_json::Value as Json;

use super::value::{LocatedValue, ManifestMember, ManifestValue};
use super::{MAX_DEPTH, MAX_NODES};
use crate::diagnostic::Position;

/// Converts a tree; the error is the limit that it exceeds.
pub(super) fn node(json: &Json) -> Result<LocatedValue, String> {
    let mut left = MAX_NODES;
    convert_within(json, MAX_DEPTH, &mut left)
}

impl LocatedValue {
    /// A value that stands for something at `at`.
    ///
    /// # Errors
    /// With the limit that it exceeds.
    pub(crate) fn of_json(json: &Json, at: Option<Position>) -> Result<Self, String> {
        let mut node = node(json)?;
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

fn convert_within(json: &Json, depth: usize, left: &mut usize) -> Result<LocatedValue, String> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| format!("more than {MAX_NODES} values"))?;
    let below = || {
        let below = depth.checked_sub(1);
        below.ok_or_else(|| format!("more than {MAX_DEPTH} levels of nesting"))
    };
    let value = match json {
        Json::Null => ManifestValue::Null,
        Json::Bool(value) => ManifestValue::Bool(*value),
        Json::Number(number) => ManifestValue::Number(match number.as_f64() {
            Some(float) if number.is_f64() => float.to_string(),
            _ => number.to_string(),
        }),
        Json::String(text) => ManifestValue::Text(text.clone()),
        Json::Array(items) => {
            let below = below()?;
            let items = items.iter().map(|item| convert_within(item, below, left));
            ManifestValue::List(items.collect::<Result<_, _>>()?)
        }
        Json::Object(members) => {
            let below = below()?;
            let members = members.iter().map(|(key, value)| {
                Ok(ManifestMember {
                    key: key.clone(),
                    key_at: None,
                    node: convert_within(value, below, left)?,
                })
            });
            ManifestValue::Map(members.collect::<Result<_, String>>()?)
        }
    };
    Ok(LocatedValue { at: None, value })
}
