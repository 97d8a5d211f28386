//! Annotations whose text is a JSON document: read as Go's `encoding/json` reads them, with the place of everything
//! that is wrong.

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Position, Spot};
use crate::go::json::{self, Json};
use crate::manifest::field::FieldRef;
use crate::manifest::value::{LocatedValue, ManifestMember, ManifestValue};
use crate::meta::{ObjectMeta, TextKind};

/// The longest text that is read: the API server takes no more for all annotations of an object.
pub const MAX_BYTES: usize = 256 * 1024;

/// What the text of an annotation says.
#[derive(Clone, Debug)]
pub(crate) struct Annotation {
    node: LocatedValue,
    path: String,
    at: Option<Position>,
}

impl Annotation {
    /// Reads the annotation `key`; nothing if it is not there, is empty, or is wrong, which the report then says.
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
                    node: node(&json, &mut starts, &mut lines),
                    path,
                    at,
                })
            }
            Err((words, byte)) => {
                let spot = Spot {
                    at,
                    within: Some(LineIndex::of(text).position(byte)),
                };
                let problem = DiagnosticKind::Unexpected {
                    expected: "JSON".to_owned(),
                    found: shortened(text),
                };
                report.error(spot, &path, problem, Some(words));
                None
            }
        }
    }

    /// The value with its path in the object.
    pub(crate) fn root(&self) -> FieldRef<'_> {
        FieldRef::in_text(&self.node, self.path.clone(), self.at)
    }
}

fn shortened(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    match start.len() < text.len() {
        true => format!("{start:?}…"),
        false => format!("{start:?}"),
    }
}

/// The value with its places. Not deeper than [`json::parse_with_starts`] keeps.
fn node(
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
        Json::Array(items) => {
            ManifestValue::List(items.iter().map(|item| node(item, starts, lines)).collect())
        }
        Json::Object(members) => {
            let member = |(key, value): &(String, Json)| ManifestMember {
                key: key.clone(),
                key_at: None,
                node: node(value, starts, lines),
            };
            ManifestValue::Map(members.iter().map(member).collect())
        }
    };
    LocatedValue { at, value }
}

/// Turns bytes into lines and columns; asked in ascending order it walks the text once.
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
