//! Reads a large JSON file object by object: the items of a list, or objects one after the other. The text is never held
//! as a whole, and fields that no reader uses are skipped while parsing.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::Document;
use super::json::{Budget, ValueSeed};
use super::value::{LocatedValue, ManifestMember, ManifestValue};
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics};

/// Limit of the size of a file that is read object by object.
pub const MAX_STREAM_BYTES: u64 = 2 << 30;
/// Limit of the objects of such a file.
pub const MAX_STREAM_OBJECTS: usize = 500_000;
/// The bytes that are read at once.
const BUFFER: usize = 1 << 16;

/// Reads the objects of a JSON file in order and passes each one to `take`, which returns whether to go on.
///
/// Positions are not known: diagnostics name the object instead.
///
/// # Errors
/// If the text is not JSON, is not made of Kubernetes objects, or exceeds a limit.
pub fn read_json(
    file: &str,
    from: impl Read,
    take: &mut dyn FnMut(Document) -> bool,
) -> Result<(), Diagnostics> {
    let mut sink = ObjectSink {
        file,
        take,
        objects: 0,
        stopped: false,
    };
    let bounded = Bounded {
        from,
        left: MAX_STREAM_BYTES,
    };
    // The parser reads byte by byte: each byte comes from this buffer, not through the readers below.
    let buffered = BufReader::with_capacity(BUFFER, bounded);
    let mut json = serde_json::Deserializer::from_reader(buffered);
    let mut is_empty = true;
    loop {
        let mut begun = false;
        let seed = TopLevel {
            sink: &mut sink,
            begun: &mut begun,
        };
        match seed.deserialize(&mut json) {
            Ok(()) => is_empty = false,
            Err(error) if error.is_eof() && !begun && !is_empty => return Ok(()),
            Err(_) if sink.stopped => return Ok(()),
            Err(error) => {
                let mut report = DiagnosticReport::new(file);
                let text = error.to_string();
                let problem = match (error.is_data(), error.is_io()) {
                    (true, _) => DiagnosticKind::NotObjects(text),
                    (_, true) => DiagnosticKind::TooComplex(text),
                    _ => DiagnosticKind::NotJson(text),
                };
                report.error(None, "", problem, None);
                return report.finish(()).map(|_| ());
            }
        }
    }
}

/// A reader that fails after so many bytes.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                let limit = MAX_STREAM_BYTES >> 30;
                return Err(io::Error::other(format!("more than {limit} GiB of JSON")));
            }
        }
        Ok(count)
    }
}

/// Where the objects go.
struct ObjectSink<'a> {
    file: &'a str,
    take: &'a mut dyn FnMut(Document) -> bool,
    objects: usize,
    /// Whether `take` wants no more objects.
    stopped: bool,
}

/// The header of a list: the items of the API server's lists have no kind of their own.
#[derive(Default)]
struct ListHeader {
    api_version: Option<String>,
    kind: Option<String>,
}

impl ObjectSink<'_> {
    fn add(&mut self, node: LocatedValue, path: String, list: &ListHeader) -> Result<(), String> {
        self.objects += 1;
        if self.objects > MAX_STREAM_OBJECTS {
            return Err(format!("more than {MAX_STREAM_OBJECTS} objects"));
        }
        let ManifestValue::Map(members) = &node.value else {
            return Err(format!(
                "{path}: expected a Kubernetes object, found {}",
                node.described()
            ));
        };
        let text = |key: &str| {
            let member = members.iter().find(|member| member.key == key);
            match member.map(|member| &member.node.value) {
                Some(ManifestValue::Text(text)) => Some(text.clone()),
                _ => None,
            }
        };
        let kind = || list.kind.as_ref()?.strip_suffix("List").map(str::to_owned);
        let kind = text("kind").or_else(kind).filter(|kind| !kind.is_empty());
        let api_version = text("apiVersion").or_else(|| list.api_version.clone());
        let (Some(api_version), Some(kind)) = (api_version, kind) else {
            let at = if path.is_empty() {
                String::new()
            } else {
                format!("{path}: ")
            };
            return Err(format!(
                "{at}expected a Kubernetes object with apiVersion and kind"
            ));
        };
        let document = Document {
            file: self.file.to_owned(),
            node,
            path,
            api_version,
            kind,
        };
        match (self.take)(document) {
            true => Ok(()),
            false => {
                self.stopped = true;
                Err("stopped".to_owned())
            }
        }
    }
}

/// An object or a list of objects.
struct TopLevel<'a, 's> {
    sink: &'a mut ObjectSink<'s>,
    /// Set once a value begins.
    begun: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for TopLevel<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object or list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        *self.begun = true;
        let mut header = ListHeader::default();
        let mut members = BTreeMap::new();
        let mut is_list = false;
        let mut budget = Budget::default();
        while let Some(key) = entries.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                entries.next_value_seed(Items {
                    sink: self.sink,
                    header: &header,
                })?;
                continue;
            }
            let Some(seed) = ValueSeed::member(&key, &mut budget) else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            let node = entries.next_value_seed(seed)?;
            match (key.as_str(), &node.value) {
                ("kind", ManifestValue::Text(kind)) => header.kind = Some(kind.clone()),
                ("apiVersion", ManifestValue::Text(version)) => {
                    header.api_version = Some(version.clone());
                }
                _ => {}
            }
            members.insert(key, node);
        }
        if is_list {
            return Ok(());
        }
        let members = members.into_iter().map(|(key, node)| ManifestMember {
            key,
            key_at: None,
            node,
        });
        let node = LocatedValue {
            at: None,
            value: ManifestValue::Map(members.collect()),
        };
        let added = self.sink.add(node, String::new(), &ListHeader::default());
        added.map_err(A::Error::custom)
    }
}

/// The items of a list.
struct Items<'a, 's> {
    sink: &'a mut ObjectSink<'s>,
    header: &'a ListHeader,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0_usize;
        loop {
            let mut budget = Budget::default();
            let seed = ValueSeed::object(&mut budget);
            let Some(node) = items.next_element_seed(seed)? else {
                return Ok(());
            };
            let added = self.sink.add(node, format!("items[{number}]"), self.header);
            added.map_err(A::Error::custom)?;
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds, paths and members of metadata, or the error.
    fn read(text: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let mut take = |document: Document| {
            let root = document.root();
            let meta = root.get("metadata").map(|meta| {
                let keys = meta.members().map(|(key, _)| key).collect::<Vec<_>>();
                keys.join("+")
            });
            found.push(format!(
                "{} {} {}{}",
                document.api_version(),
                document.kind(),
                root.path(),
                meta.unwrap_or_default()
            ));
            true
        };
        let read = read_json("f.json", text.as_bytes(), &mut take);
        read.map(|()| found).map_err(|errors| errors.to_string())
    }

    #[test]
    fn items_of_lists_and_objects_in_a_row_are_read_without_managed_fields() {
        let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","managedFields":[{"x":[1,{}]}],"uid":"u"}}"#;
        for (text, expected) in [
            (pod.to_owned(), vec!["v1 Pod name+uid"]),
            (format!("{pod}\n{pod}"), vec!["v1 Pod name+uid"; 2]),
            (
                format!(r#"{{"apiVersion":"v1","items":[{pod},{pod}],"kind":"List"}} "#),
                vec!["v1 Pod items[0]name+uid", "v1 Pod items[1]name+uid"],
            ),
            (
                r#"{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n"}}]}"#
                    .to_owned(),
                vec!["v1 Node items[0]name"],
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[]}"#.to_owned() + pod,
                vec!["v1 Pod name+uid"],
            ),
        ] {
            assert_eq!(read(&text).expect(&text), expected);
        }
    }

    #[test]
    fn every_other_text_is_one_error() {
        let deep = "[".repeat(100);
        for (text, expected) in [
            ("", "EOF"),
            ("[]", "expected a Kubernetes object or list"),
            ("{\"kind\":", "EOF"),
            ("{\"items\":{}}", "expected a list of objects"),
            (
                "{\"items\":[1]}",
                "items[0]: expected a Kubernetes object, found the number 1",
            ),
            (
                "{\"items\":[{}]}",
                "expected a Kubernetes object with apiVersion and kind",
            ),
            (&format!("{{\"a\":{deep}"), "more than 64 levels of nesting"),
            ("{\"apiVersion\":\"v1\",\"kind\":\"Pod\"} x", "expected"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
