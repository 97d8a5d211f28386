//! The metadata of an object.

use std::collections::BTreeMap;

use crate::finding::Report;
use crate::manifest::place::Place;

/// What an object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Its namespace; `default` if it says none.
    pub namespace: String,
    /// Its name, unique among its kind in the namespace.
    pub name: String,
    /// The id that the API server gave it, if it ever was there.
    pub uid: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl ObjectMeta {
    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Reads `metadata`. An object without a name takes it from `generateName`, with a 0 behind it.
    pub(super) fn read(object: &Place<'_>, report: &mut Report) -> Option<Self> {
        let Some(meta) = object.get_map("metadata", "a mapping with a name", report) else {
            if object.get("metadata").is_none() {
                object.missing("metadata", "a mapping with a name", report);
            }
            return None;
        };
        let mut read = Self::read_template(&meta, report);
        read.name = match meta.get_text("generateName", "the start of a name", report) {
            Some(start) if meta.get("name").is_none() => format!("{start}0"),
            _ => meta.required_text("name", "a name", report)?,
        };
        Some(read)
    }

    /// Reads the metadata of a pod template, which has no name of its own.
    pub(super) fn read_template(meta: &Place<'_>, report: &mut Report) -> Self {
        let namespace = meta.get_text("namespace", "a namespace", report);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let uid = meta.get_text("uid", "an id", report);
        Self {
            namespace: namespace.unwrap_or("default").to_owned(),
            name: String::new(),
            uid: uid.filter(|uid| !uid.is_empty()).map(str::to_owned),
            labels: texts(meta, "labels", report),
            annotations: texts(meta, "annotations", report),
        }
    }
}

/// A mapping of texts.
fn texts(meta: &Place<'_>, key: &str, report: &mut Report) -> BTreeMap<String, String> {
    let Some(map) = meta.get_map(key, "a mapping of texts", report) else {
        return BTreeMap::new();
    };
    let mut texts = BTreeMap::new();
    for (key, place) in map.members() {
        if let Some(text) = place.text("text", report) {
            texts.insert(key.to_owned(), text.to_owned());
        }
    }
    texts
}
