//! [`GoValue`]: a type of the kubelet's state files, with its three forms.
//!
//! * **decode**, as `json.Unmarshal`: into an existing value, so that missing members keep their value; `null` empties
//!   maps, slices and pointers and leaves other types unchanged; a value of the wrong type is recorded and decoding
//!   continues, and the first such error is returned;
//! * **encode**, as `json.Marshal`: map keys sorted as text;
//! * **dump**, as `spew` with its options for hashing: type names, map keys sorted as values, no quotes.
//!
//! The zero value of a type ([`Default`]) is Go's: a map, slice or pointer is `nil`, which differs from an empty one in
//! all three forms.

use super::json::{self, Json};
use std::collections::BTreeMap;

/// A value of a Go type.
pub(crate) trait GoValue: Default {
    /// The type's name as Go prints it.
    fn type_name() -> String;

    /// Decodes `json` into this value; `name` is the name of the type that wraps this one, for messages.
    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String);

    /// Decodes `json` into this value.
    fn decode(&mut self, json: &Json, decoder: &mut Decoder) {
        self.decode_as(json, decoder, Self::type_name);
    }

    /// Appends the value as `spew` prints it where its type is known.
    fn dump(&self, out: &mut String);

    /// Appends the value as JSON.
    fn encode(&self, out: &mut String);

    /// Whether a field marked `omitempty` is left out.
    fn is_empty(&self) -> bool;

    /// Whether the struct has no such field in this format of its file.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A field that not every format has; `None` in the formats without it, where a JSON member of its name is ignored.
impl<T: GoValue> GoValue for Option<T> {
    fn type_name() -> String {
        T::type_name()
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String) {
        if let Some(value) = self {
            value.decode_as(json, decoder, name);
        }
    }

    fn dump(&self, out: &mut String) {
        self.iter().for_each(|value| value.dump(out));
    }

    fn encode(&self, out: &mut String) {
        self.iter().for_each(|value| value.encode(out));
    }

    fn is_empty(&self) -> bool {
        self.as_ref().is_none_or(T::is_empty)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// Decodes `bytes` into `value` as `json.Unmarshal` does; in messages the type of `value` is `type_name`. The error is
/// Go's message; `value` then holds what was decoded before the error.
pub(crate) fn unmarshal<T: GoValue>(
    bytes: &[u8],
    value: &mut T,
    type_name: &'static str,
) -> Result<(), String> {
    let json = json::parse(bytes)?;
    let mut decoder = Decoder {
        root: Some(type_name),
        ..Decoder::default()
    };
    value.decode(&json, &mut decoder);
    decoder.into_error().map_or(Ok(()), Err)
}

/// The state of one `json.Unmarshal`: the first error, and the current path of fields.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    noted: Option<String>,
    stopped: Option<String>,
    /// The struct types and fields from the outermost to the current one.
    fields: Vec<(&'static str, &'static str)>,
    /// The type name of the outermost struct, if it differs by format.
    root: Option<&'static str>,
}

impl Decoder {
    /// The error of `json.Unmarshal`, if any.
    pub(crate) fn into_error(self) -> Option<String> {
        self.stopped.or(self.noted)
    }

    /// Enters a field of a struct; to be followed by [`Decoder::leave`].
    pub(crate) fn enter(&mut self, record: &'static str, field: &'static str) {
        self.fields.push((record, field));
    }

    /// Leaves the field entered last.
    pub(crate) fn leave(&mut self) {
        self.fields.pop();
    }

    /// Records a value of the wrong type; the first error counts.
    pub(crate) fn mismatch(&mut self, found: &str, expected: &str) {
        if self.noted.is_some() {
            return;
        }
        let (target, expected) = match (self.fields.as_slice(), self.root) {
            ([], root) => ("value".to_owned(), root.unwrap_or(expected)),
            ([(_, field)], Some(root)) => {
                let record = root.rsplit('.').next().unwrap_or(root);
                (format!("struct field {record}.{field}"), expected)
            }
            (fields @ [.., (record, _)], _) => {
                let path: Vec<&str> = fields.iter().map(|(_, field)| *field).collect();
                let target = format!("struct field {record}.{}", path.join("."));
                (target, expected)
            }
        };
        self.noted = Some(format!(
            "json: cannot unmarshal {found} into Go {target} of type {expected}"
        ));
    }

    /// Records another error.
    pub(crate) fn note(&mut self, error: String) {
        self.noted.get_or_insert(error);
    }

    /// Stops decoding with an error, as a failing `UnmarshalJSON` of a type does.
    pub(crate) fn stop(&mut self, error: String) {
        self.stopped.get_or_insert(error);
    }

    /// Whether decoding has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }
}

impl GoValue for String {
    fn type_name() -> String {
        "string".to_owned()
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String) {
        match json {
            Json::Text(text) => self.clone_from(text),
            Json::Null => {}
            other => decoder.mismatch(other.kind(), &name()),
        }
    }

    fn dump(&self, out: &mut String) {
        out.push_str(self);
    }

    fn encode(&self, out: &mut String) {
        json::push_string(out, self);
    }

    fn is_empty(&self) -> bool {
        str::is_empty(self)
    }
}

macro_rules! integer {
    ($type:ty, $name:literal) => {
        impl GoValue for $type {
            fn type_name() -> String {
                $name.to_owned()
            }

            fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String) {
                match json {
                    Json::Number(text) => match text.parse() {
                        Ok(number) => *self = number,
                        Err(_) => decoder.mismatch(&format!("number {text}"), &name()),
                    },
                    Json::Null => {}
                    other => decoder.mismatch(other.kind(), &name()),
                }
            }

            fn dump(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }

            fn encode(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }

            fn is_empty(&self) -> bool {
                *self == 0
            }
        }
    };
}

integer!(u64, "uint64");
integer!(u8, "uint8");
integer!(i64, "int");

/// A Go type that may be the key of a map.
pub(crate) trait GoKey: GoValue + Clone + Ord {
    /// The key of a JSON member's name; `None` if the name is not a valid key.
    fn from_name(name: &str) -> Option<Self>;
    /// The name of the JSON member.
    fn name(&self) -> String;
}

impl GoKey for String {
    fn from_name(name: &str) -> Option<Self> {
        Some(name.to_owned())
    }

    fn name(&self) -> String {
        self.clone()
    }
}

impl GoKey for i64 {
    fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    fn name(&self) -> String {
        self.to_string()
    }
}

/// A Go map; `None` is `nil`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map<K, V>(pub(crate) Option<BTreeMap<K, V>>);

impl<K, V> Map<K, V> {
    /// An empty map that is not `nil`.
    pub(crate) fn empty() -> Self {
        Self(Some(BTreeMap::new()))
    }

    /// The entries; empty if the map is `nil`.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().flatten()
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(Some(entries.into_iter().collect()))
    }
}

impl<K: GoKey, V: GoValue> GoValue for Map<K, V> {
    fn type_name() -> String {
        format!("map[{}]{}", K::type_name(), V::type_name())
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String) {
        let members = match json {
            Json::Object(members) => members,
            Json::Null => return self.0 = None,
            other => return decoder.mismatch(other.kind(), &name()),
        };
        let map = self.0.get_or_insert_default();
        for (member, json) in members {
            let mut value = V::default();
            value.decode(json, decoder);
            if decoder.is_stopped() {
                return;
            }
            match K::from_name(member) {
                Some(key) => drop(map.insert(key, value)),
                None => decoder.mismatch(&format!("number {member}"), &K::type_name()),
            }
        }
    }

    fn dump(&self, out: &mut String) {
        let Some(map) = &self.0 else {
            return out.push_str("<nil>");
        };
        out.push_str("map[");
        for (i, (key, value)) in map.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { " " });
            key.dump(out);
            out.push(':');
            value.dump(out);
        }
        out.push(']');
    }

    fn encode(&self, out: &mut String) {
        let Some(map) = &self.0 else {
            return out.push_str("null");
        };
        // Sorted by name, not by key: "10" precedes "2".
        let by_name: BTreeMap<String, &V> =
            map.iter().map(|(key, value)| (key.name(), value)).collect();
        out.push('{');
        for (i, (name, value)) in by_name.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { "," });
            json::push_string(out, name);
            out.push(':');
            value.encode(out);
        }
        out.push('}');
    }

    fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(BTreeMap::is_empty)
    }
}

/// A Go slice; `None` is `nil`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice<T>(pub(crate) Option<Vec<T>>);

impl<T> Slice<T> {
    /// The elements; empty if the slice is `nil`.
    pub(crate) fn as_slice(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> Default for Slice<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> FromIterator<T> for Slice<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(Some(elements.into_iter().collect()))
    }
}

impl<T: GoValue> GoValue for Slice<T> {
    fn type_name() -> String {
        format!("[]{}", T::type_name())
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String) {
        let elements = match json {
            Json::Array(elements) => elements,
            Json::Null => return self.0 = None,
            other => return decoder.mismatch(other.kind(), &name()),
        };
        // Existing elements are decoded into, not replaced.
        let slice = self.0.get_or_insert_default();
        for (i, json) in elements.iter().enumerate() {
            if i >= slice.len() {
                slice.push(T::default());
            }
            if let Some(element) = slice.get_mut(i) {
                element.decode(json, decoder);
            }
            if decoder.is_stopped() {
                return;
            }
        }
        slice.truncate(elements.len());
    }

    fn dump(&self, out: &mut String) {
        let Some(slice) = &self.0 else {
            return out.push_str("<nil>");
        };
        out.push('[');
        for (i, element) in slice.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { " " });
            element.dump(out);
        }
        out.push(']');
    }

    fn encode(&self, out: &mut String) {
        let Some(slice) = &self.0 else {
            return out.push_str("null");
        };
        out.push('[');
        for (i, element) in slice.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { "," });
            element.encode(out);
        }
        out.push(']');
    }

    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

/// A Go pointer inside a map; `None` is `nil`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer<T>(pub(crate) Option<Box<T>>);

impl<T> Default for Pointer<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<T> for Pointer<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T: GoValue> GoValue for Pointer<T> {
    fn type_name() -> String {
        format!("*{}", T::type_name())
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, _name: fn() -> String) {
        match json {
            Json::Null => self.0 = None,
            other => self.0.get_or_insert_default().decode(other, decoder),
        }
    }

    fn dump(&self, out: &mut String) {
        match &self.0 {
            None => out.push_str("<nil>"),
            Some(value) => {
                out.push_str("<*>");
                value.dump(out);
            }
        }
    }

    fn encode(&self, out: &mut String) {
        match &self.0 {
            None => out.push_str("null"),
            Some(value) => value.encode(out),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
