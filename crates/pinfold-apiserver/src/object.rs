//! Objects as the readers of our other crates take them: text that says what it is.

use serde_json::Value;

/// `namespace/name`, or the name alone, as far as the object says.
#[must_use]
pub fn full_name(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str();
    let name = text("name").unwrap_or("?");
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The text of an object as the server sends it: in a list it does not say what it is, and it carries records of who
/// wrote what, which are most of it and decide nothing.
#[must_use]
pub fn text(mut object: Value, api_version: &str, kind: &str) -> String {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), api_version.into());
        members.insert("kind".to_owned(), kind.into());
        let meta = members.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(meta) = meta {
            meta.remove("managedFields");
        }
    }
    printable(object.to_string())
}

/// Characters that JSON may contain and YAML may not are only ever inside of texts.
fn printable(text: String) -> String {
    let odd = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    };
    if !text.contains(odd) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match odd(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}
