//! Manifests: files with one or many Kubernetes objects in YAML or JSON.
//!
//! ```text
//! bytes ──► documents (text, position) ──► pods            crate::pod
//!                                      └─► kubelet settings crate::kubelet_config
//! ```
//!
//! The size of a file, its nesting, the number of documents and the expansion of aliases are limited, see the
//! constants.

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, Position, WithWarnings};

pub mod field;
mod json;
pub mod stream;
pub(crate) mod value;
mod yaml;

use field::FieldRef;
use value::{LocatedValue, ManifestValue};

/// Limit of the size of a file. The API server accepts 3 MiB for one object.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;
/// The hint for a file of a chart that Helm has not rendered.
const HELM_TEMPLATE: &str =
    "this looks like a Helm template: read the output of `helm template CHART`";

/// Limit of the nesting. A pod needs about ten levels.
pub const MAX_DEPTH: usize = 64;
/// Limit of the documents in a file, and of the items in its lists.
pub const MAX_DOCUMENTS: usize = 4096;
/// Limit of the aliases in a file.
pub const MAX_ALIASES: usize = 1000;
/// Limit of the values that aliases expand to.
pub const MAX_ALIASED_NODES: usize = 20_000;
/// Limit of the values in a file.
pub const MAX_NODES: usize = 500_000;

/// One object of a file.
#[derive(Clone, Debug)]
pub struct Document {
    file: String,
    node: LocatedValue,
    /// The path of the object in the document: empty, or `items[3]` in a list.
    path: String,
    api_version: String,
    kind: String,
}

impl Document {
    /// An object in the API server's JSON; in diagnostics its file is its kind and name. The API server omits
    /// `apiVersion` and `kind` in the items of a list, so the caller passes them; the object's own version counts if it
    /// has one.
    ///
    /// # Errors
    /// If it is not a mapping, or exceeds the limits of a file.
    pub(crate) fn of_json(api_version: &str, kind: &str, json: &str) -> Result<Self, Diagnostics> {
        let mut report = DiagnosticReport::new(kind);
        let node = json::object(json).map_err(|problem| report.error(None, "", problem, None));
        let node = node.ok().filter(|node| {
            let field = FieldRef::new(node, String::new());
            field.map("a Kubernetes object", &mut report).is_some()
        });
        let document = node.map(|node| {
            let object = FieldRef::new(&node, String::new());
            let own_version = object.get("apiVersion");
            let own_version = own_version.and_then(|version| version.as_text());
            Self {
                file: format!("{kind} {}", full_name(&object)),
                api_version: own_version.unwrap_or(api_version).to_owned(),
                kind: kind.to_owned(),
                path: String::new(),
                node,
            }
        });
        report.finish_some(document).map(|read| read.value)
    }

    /// The name of its file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The position of its beginning.
    #[must_use]
    pub fn at(&self) -> Option<Position> {
        self.node.at
    }

    /// Its `apiVersion`, such as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Its `kind`, such as `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The object as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::json_value::JsonValue::from(self.value()).to_json()
    }

    pub(crate) fn value(&self) -> &LocatedValue {
        &self.node
    }

    pub(crate) fn root(&self) -> FieldRef<'_> {
        FieldRef::new(&self.node, self.path.clone())
    }
}

/// `namespace/name`, or the name alone for cluster-scoped objects; `?` if the object has no name.
pub(crate) fn full_name(object: &FieldRef<'_>) -> String {
    let meta = object.get("metadata");
    let text = |key: &str| meta.as_ref()?.get(key)?.as_text();
    let name = text("name").unwrap_or("?");
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Reads all objects of a file. Empty documents are skipped; a list is replaced by its items.
///
/// # Errors
/// If the file is too large, not UTF-8, not YAML, or contains a value that is not a Kubernetes object.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Document>, Diagnostics> {
    let mut report = DiagnosticReport::new(file);
    let nodes = values(bytes, &mut report);
    if let (false, Some(documents)) = (report.is_usable(), json_stream(file, bytes)) {
        return Ok(documents);
    }
    let mut documents = Vec::new();
    for node in nodes {
        let place = Place {
            file,
            path: String::new(),
            list: None,
        };
        collect(node, place, &mut documents, &mut report);
    }
    report.finish(documents).map(|read| read.value)
}

/// JSON objects one after the other, which are not YAML; `None` if the file is something else.
fn json_stream(file: &str, bytes: &[u8]) -> Option<Vec<Document>> {
    if bytes.len() > MAX_BYTES || !bytes.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let mut documents = Vec::new();
    let mut take = |document| {
        documents.push(document);
        documents.len() <= MAX_DOCUMENTS
    };
    stream::read_json(file, bytes, &mut take).ok()?;
    (documents.len() <= MAX_DOCUMENTS).then_some(documents)
}

/// Reads the values of a file, which need not be Kubernetes objects.
pub(crate) fn read_values(file: &str, bytes: &[u8]) -> Result<Vec<LocatedValue>, Diagnostics> {
    let mut report = DiagnosticReport::new(file);
    let nodes = values(bytes, &mut report);
    report.finish(nodes).map(|read| read.value)
}

/// Reads a file with one mapping that is not a Kubernetes object; `reader` parses its fields. An empty file is an empty
/// mapping.
///
/// # Errors
/// With every error in the file.
pub fn read_plain<T>(
    file: &str,
    bytes: &[u8],
    reader: impl FnOnce(&FieldRef<'_>, &mut DiagnosticReport) -> T,
) -> Result<WithWarnings<T>, Diagnostics> {
    let nodes = read_values(file, bytes)?;
    let mut report = DiagnosticReport::new(file);
    let empty = LocatedValue {
        at: None,
        value: ManifestValue::Map(Vec::new()),
    };
    let mut whole = nodes
        .iter()
        .filter(|node| node.value != ManifestValue::Null);
    let field = FieldRef::new(whole.next().unwrap_or(&empty), String::new());
    if let Some(other) = whole.next() {
        let other = FieldRef::new(other, String::new());
        other.unexpected("one document", &mut report);
    }
    field.map("a mapping", &mut report);
    let value = reader(&field, &mut report);
    report.finish(value)
}

fn values(bytes: &[u8], report: &mut DiagnosticReport) -> Vec<LocatedValue> {
    match text(bytes) {
        Err((problem, hint)) => {
            report.error(None, "", problem, Some(hint.to_owned()));
            Vec::new()
        }
        Ok(text) => yaml::documents(text).unwrap_or_else(|error| {
            let helm = text.contains("{{").then(|| HELM_TEMPLATE.to_owned());
            report.error(error.at, "", error.problem, helm.or(error.hint));
            Vec::new()
        }),
    }
}

fn text(bytes: &[u8]) -> Result<&str, (DiagnosticKind, &'static str)> {
    if bytes.len() > MAX_BYTES {
        let problem = DiagnosticKind::TooLarge {
            limit: MAX_BYTES,
            found: bytes.len(),
        };
        return Err((problem, "split the file"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let hint = match bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            true => "this is UTF-16, which > of PowerShell writes: save the file as UTF-8",
            false => "is this a YAML or JSON file?",
        };
        (DiagnosticKind::NotText { at }, hint)
    })
}

/// Where an object is.
struct Place<'a> {
    file: &'a str,
    path: String,
    /// The API version and kind of the items of its list, which the API server leaves out in the items.
    list: Option<(&'a str, &'a str)>,
}

/// Adds the object, or the objects of a list.
fn collect(
    node: LocatedValue,
    place: Place<'_>,
    documents: &mut Vec<Document>,
    report: &mut DiagnosticReport,
) {
    let Place { file, path, list } = place;
    let field = FieldRef::new(&node, path.clone());
    let what = "a Kubernetes object with apiVersion and kind";
    let header = field.map(what, report).and_then(|object| {
        let items = object.get("items").is_some();
        let has_own = object.get("apiVersion").is_some() || object.get("kind").is_some();
        if let (Some((api_version, kind)), false) = (list, has_own) {
            return Some((api_version.to_owned(), kind.to_owned(), items));
        }
        let api_version = object.required_text("apiVersion", "an API version such as v1", report);
        let kind = object.required_text("kind", "a kind such as Pod", report);
        Some((api_version?, kind?, items))
    });
    let Some((api_version, kind, has_items)) = header else {
        return;
    };
    if kind == "List" || (has_items && kind.ends_with("List")) {
        let of_items = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        let place = Place {
            file,
            path,
            list: of_items.map(|kind| (api_version.as_str(), kind)),
        };
        return unpack(node, &place, documents, report);
    }
    if documents.len() == MAX_DOCUMENTS {
        let limit = format!("more than {MAX_DOCUMENTS} objects");
        let hint = Some("split the file".to_owned());
        report.error(node.at, &path, DiagnosticKind::TooComplex(limit), hint);
    }
    documents.push(Document {
        file: file.to_owned(),
        node,
        path,
        api_version,
        kind,
    });
}

/// Adds the items of a list. Lists nest, as for kubectl.
fn unpack(
    list: LocatedValue,
    place: &Place<'_>,
    documents: &mut Vec<Document>,
    report: &mut DiagnosticReport,
) {
    let ManifestValue::Map(members) = list.value else {
        return;
    };
    let Some(items) = members.into_iter().find(|member| member.key == "items") else {
        return;
    };
    let ManifestValue::List(items) = items.node.value else {
        let field = FieldRef::new(&items.node, "items".to_owned());
        return field.unexpected("a list of objects", report);
    };
    for (i, item) in items.into_iter().enumerate() {
        if documents.len() > MAX_DOCUMENTS {
            return;
        }
        let path = match place.path.as_str() {
            "" => format!("items[{i}]"),
            list => format!("{list}.items[{i}]"),
        };
        collect(item, Place { path, ..*place }, documents, report);
    }
}

#[cfg(test)]
mod tests;
