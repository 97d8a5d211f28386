//! The metadata of an object.

use std::collections::BTreeMap;

use crate::diagnostic::{DiagnosticReport, Position};
use crate::json_value::{JsonFields, JsonValue};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Its namespace; `default` if missing, empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name, unique among objects of its kind in the namespace.
    pub name: String,
    /// Its uid, if the API server has assigned one.
    pub uid: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    pub rest: JsonFields,
    /// The file and positions, for diagnostics.
    pub origin: ObjectOrigin,
}

/// The file and positions that metadata was read from. All origins compare as equal.
#[derive(Clone, Debug, Default)]
pub struct ObjectOrigin {
    /// The file.
    pub file: String,
    labels: BTreeMap<String, Position>,
    annotations: BTreeMap<String, Position>,
}

impl PartialEq for ObjectOrigin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ObjectOrigin {}

const KNOWN: &[&str] = &["namespace", "name", "uid", "labels", "annotations"];

/// Labels or annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    Label,
    Annotation,
}

impl ObjectMeta {
    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Reads `metadata`. An object without a name gets its `generateName` followed by 0.
    pub(crate) fn read(object: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<Self> {
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

    /// Reads the metadata of a cluster-scoped object, and sets it as the object of the next diagnostics.
    pub(crate) fn read_cluster_scoped(
        document: &Document,
        report: &mut DiagnosticReport,
    ) -> Option<Self> {
        let mut meta = Self::read(&document.root(), report)?;
        meta.namespace = String::new();
        meta.origin.file = document.file().to_owned();
        report.set_object(document.kind(), &meta.name);
        Some(meta)
    }

    /// Reads the metadata of a pod template, which has no name.
    pub(crate) fn read_template(meta: &FieldRef<'_>, report: &mut DiagnosticReport) -> Self {
        let namespace = meta.get_text("namespace", "a namespace", report);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let uid = meta.get_text("uid", "an id", report);
        let (labels, label_places) = texts(meta, "labels", report);
        let (annotations, annotation_places) = texts(meta, "annotations", report);
        Self {
            namespace: namespace.unwrap_or("default").to_owned(),
            name: String::new(),
            uid: uid.filter(|uid| !uid.is_empty()).map(str::to_owned),
            labels,
            annotations,
            rest: meta.rest(KNOWN),
            origin: ObjectOrigin {
                file: String::new(),
                labels: label_places,
                annotations: annotation_places,
            },
        }
    }

    pub(crate) fn texts(&self, kind: TextKind) -> &BTreeMap<String, String> {
        match kind {
            TextKind::Label => &self.labels,
            TextKind::Annotation => &self.annotations,
        }
    }

    /// The position and path of a label or annotation.
    pub(crate) fn position_of(&self, kind: TextKind, key: &str) -> (Option<Position>, String) {
        let (places, section) = match kind {
            TextKind::Label => (&self.origin.labels, "labels"),
            TextKind::Annotation => (&self.origin.annotations, "annotations"),
        };
        let at = places.get(key).copied();
        (at, format!("metadata.{section}[{key}]"))
    }

    /// The metadata as JSON.
    pub(crate) fn content(&self) -> JsonValue {
        let mut fields = JsonFields::new();
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                fields.push((key.to_owned(), JsonValue::text(value)));
            }
        };
        text("name", &self.name);
        text("namespace", &self.namespace);
        text("uid", self.uid.as_deref().unwrap_or_default());
        for (key, texts) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !texts.is_empty() {
                let texts = texts.iter();
                let texts = texts.map(|(key, text)| (key.clone(), JsonValue::text(text)));
                fields.push((key.to_owned(), JsonValue::Map(texts.collect())));
            }
        }
        fields.extend(self.rest.iter().cloned());
        JsonValue::Map(fields)
    }
}

type LocatedTexts = (BTreeMap<String, String>, BTreeMap<String, Position>);

/// Reads a mapping of texts, with their positions.
fn texts(meta: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> LocatedTexts {
    let mut texts = LocatedTexts::default();
    let Some(map) = meta.get_map(key, "a mapping of texts", report) else {
        return texts;
    };
    for (key, field) in map.members() {
        if let Some(text) = field.text("text", report) {
            texts.0.insert(key.to_owned(), text.to_owned());
            texts.1.extend(field.at().map(|at| (key.to_owned(), at)));
        }
    }
    texts
}
