//! [`ApiObject`]: an object in the API server's JSON, of a list, a watch event or a request.

use crate::diagnostic::Diagnostics;
use crate::manifest::{self, Document};

/// An object in the API server's JSON.
#[derive(Clone, Debug)]
pub struct ApiObject {
    /// The kind.
    pub kind: &'static str,
    /// `namespace/name`, or the name alone for cluster-scoped objects; `?` if the object has no name.
    pub name: String,
    /// The resource version; empty if missing.
    pub resource_version: String,
    /// The object.
    pub document: Document,
}

/// An object that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct InvalidObject {
    /// The kind of the object.
    pub kind: &'static str,
    /// `namespace/name`, or the name alone; `?` if the object has none.
    pub name: String,
    /// The parse errors, each with the kind and name of the object.
    pub problem: String,
}

impl ApiObject {
    /// Parses an object of this kind. `api_version` is for items of lists, which have none of their own.
    ///
    /// # Errors
    /// If the text is not a JSON object, or exceeds the limits of [`manifest`].
    pub fn parse(kind: &'static str, api_version: &str, json: &str) -> Result<Self, InvalidObject> {
        let document =
            Document::of_json(api_version, kind, json).map_err(|problem| InvalidObject {
                kind,
                name: "?".to_owned(),
                problem: problem.to_string(),
            })?;
        let object = document.root();
        let version = object.get("metadata");
        let version = version.and_then(|meta| meta.get("resourceVersion")?.as_text());
        Ok(Self {
            kind,
            name: manifest::full_name(&object),
            resource_version: version.unwrap_or_default().to_owned(),
            document,
        })
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let meta = self.document.root().get("metadata")?;
        meta.get("annotations")?.get(key)?.as_text()
    }

    /// The error of an object whose fields are invalid.
    #[must_use]
    pub fn invalid(&self, problem: &Diagnostics) -> InvalidObject {
        InvalidObject {
            kind: self.kind,
            name: self.name.clone(),
            problem: problem.to_string(),
        }
    }
}
