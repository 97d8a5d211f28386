//! Annotations that contain JSON, parsed as Go's `encoding/json` does, with the position of every error.

use crate::diagnostic::{DiagnosticKind, DiagnosticPosition, DiagnosticReport, Position};
use crate::go::json::{self, Json};
use crate::manifest::field::FieldRef;
use crate::manifest::value::{LocatedValue, ManifestMember, ManifestValue};
use crate::meta::{ObjectMeta, TextKind};

/// Limit of the length of an annotation: the API server's limit for all annotations of an object.
pub const MAX_BYTES: usize = 256 * 1024;

/// The parsed JSON of an annotation.
#[derive(Clone, Debug)]
pub(crate) struct Annotation {
    located_value: LocatedValue,
    path: String,
    at: Option<Position>,
}

impl Annotation {
    /// Parses the annotation `key`; `None` if it does not exist, is empty, or is invalid, which is an error in the
    /// report.
    pub(crate) fn read(
        meta: &ObjectMeta,
        key: &str,
        report: &mut DiagnosticReport,
    ) -> Option<Self> {
        let text = meta.annotations.get(key)?;
        let (at, path) = meta.position_of(TextKind::Annotation, key);
        if text.is_empty() {
            return None;
        }
        if text.len() > MAX_BYTES {
            let problem = DiagnosticKind::TooLarge {
                limit: MAX_BYTES,
                found: text.len(),
            };
            report.error(at, &path, problem, Some("shorten the annotation".into()));
            return None;
        }
        match json::parse_with_starts(text.as_bytes()) {
            Ok((json, starts)) => {
                let mut starts = starts.into_iter();
                let mut lines = LineIndex::of(text);
                Some(Self {
                    located_value: located_value(&json, &mut starts, &mut lines),
                    path,
                    at,
                })
            }
            Err((message, byte)) => {
                let spot = DiagnosticPosition {
                    at,
                    within: Some(LineIndex::of(text).position(byte)),
                };
                let problem = DiagnosticKind::Unexpected {
                    expected: "JSON".to_owned(),
                    found: shortened(text),
                };
                report.error(spot, &path, problem, Some(message));
                None
            }
        }
    }

    /// The parsed value, with its path in the object.
    pub(crate) fn root(&self) -> FieldRef<'_> {
        FieldRef::in_text(&self.located_value, self.path.clone(), self.at)
    }
}

fn shortened(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    match start.len() < text.len() {
        true => format!("{start:?}…"),
        false => format!("{start:?}"),
    }
}

/// The value with its positions. Not deeper than [`json::parse_with_starts`] keeps.
fn located_value(
    json: &Json,
    starts: &mut impl Iterator<Item = usize>,
    lines: &mut LineIndex<'_>,
) -> LocatedValue {
    let at = starts.next().map(|start| lines.position(start));
    let value = match json {
        Json::Null => ManifestValue::Null,
        Json::Bool(value) => ManifestValue::Bool(*value),
        Json::Number(text) => ManifestValue::Number(text.clone()),
        Json::Text(text) => ManifestValue::Text(text.clone()),
        Json::Array(items) => ManifestValue::List(
            items
                .iter()
                .map(|item| located_value(item, starts, lines))
                .collect(),
        ),
        Json::Object(members) => {
            let member = |(key, value): &(String, Json)| ManifestMember {
                key: key.clone(),
                key_at: None,
                node: located_value(value, starts, lines),
            };
            ManifestValue::Map(members.iter().map(member).collect())
        }
    };
    LocatedValue { at, value }
}

/// Converts byte offsets to lines and columns; offsets must ascend, so that the text is scanned once.
struct LineIndex<'t> {
    text: &'t str,
    byte: usize,
    position: Position,
}

impl<'t> LineIndex<'t> {
    fn of(text: &'t str) -> Self {
        Self {
            text,
            byte: 0,
            position: Position { line: 1, column: 1 },
        }
    }

    fn position(&mut self, byte: usize) -> Position {
        let rest = self.text.get(self.byte..).unwrap_or_default();
        for c in rest.chars() {
            if self.byte >= byte {
                break;
            }
            self.byte += c.len_utf8();
            match c {
                '\n' => {
                    self.position.line += 1;
                    self.position.column = 1;
                }
                _ => self.position.column += 1,
            }
        }
        self.position
    }
}
