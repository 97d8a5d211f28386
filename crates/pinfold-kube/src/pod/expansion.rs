//! [`Expansion`]: the pods that one object creates, from its pod templates.

use super::workload::{pod, required_map};
use super::{MAX_PODS, ObjectMeta, Owner, PodFile, PodObject};
use crate::diagnostic::{DiagnosticKind, DiagnosticReport};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;

/// An object that creates pods, and the file's pods so far.
pub(super) struct Expansion<'a> {
    /// The object.
    pub(super) document: &'a Document,
    /// Its metadata.
    pub(super) owner: ObjectMeta,
    /// The pods of the file.
    pub(super) file: &'a mut PodFile,
    /// Errors and warnings.
    pub(super) report: &'a mut DiagnosticReport,
}

impl Expansion<'_> {
    /// The pod of a template, with the name that its replicas begin with.
    pub(super) fn model(&mut self, template: &FieldRef<'_>, name: &str) -> Option<PodObject> {
        let template = template.map("a pod template", self.report)?;
        let spec = required_map(&template, "spec", "a pod specification", self.report)?;
        let own = template
            .get_map("metadata", "a mapping", self.report)
            .map(|meta| ObjectMeta::read_template(&meta, self.report))
            .unwrap_or_default();
        self.model_of(own, &spec, name)
    }

    /// The pod of a specification and a template's metadata.
    pub(super) fn model_of(
        &mut self,
        template: ObjectMeta,
        spec: &FieldRef<'_>,
        name: &str,
    ) -> Option<PodObject> {
        let mut meta = ObjectMeta {
            namespace: self.owner.namespace.clone(),
            name: name.to_owned(),
            uid: None,
            ..template
        };
        let file = &mut meta.origin.file;
        file.clone_from(&self.owner.origin.file);
        let owner = Owner {
            kind: self.document.kind().to_owned(),
            name: self.owner.name.clone(),
        };
        pod(&meta, spec, Some(owner), self.document, self.report)
    }

    /// The required pod template under `key`.
    pub(super) fn template(
        &mut self,
        parent: &FieldRef<'_>,
        key: &str,
        name: &str,
    ) -> Option<PodObject> {
        let template = required_map(parent, key, "a pod template", self.report)?;
        self.model(&template, name)
    }

    /// Adds the pod under its own name.
    pub(super) fn push(&mut self, model: PodObject) {
        if self.has_room(1) {
            self.file.pods.push(model);
        }
    }

    /// Adds `count` copies of the pod, whose names end in numbers from `first` on.
    pub(super) fn push_numbered(&mut self, model: &PodObject, first: u64, count: u64) {
        if self.has_room(count) {
            let copies = (0..count).map(|i| numbered(model, first.saturating_add(i)));
            self.file.pods.extend(copies);
        }
    }

    /// Whether `count` more pods are within the limit. Adds an error if not.
    pub(super) fn has_room(&mut self, count: u64) -> bool {
        let room = u64::try_from(MAX_PODS.saturating_sub(self.file.pods.len())).unwrap_or(0);
        if count > room {
            let limit = format!("more than {MAX_PODS} pods in one file");
            let problem = DiagnosticKind::TooComplex(limit);
            self.report.error(self.document.at(), "spec", problem, None);
        }
        count <= room
    }

    /// Adds a warning about the whole object.
    pub(super) fn warn(&mut self, text: String) {
        let problem = DiagnosticKind::Assumed(text);
        self.report.warning(self.document.at(), "", problem, None);
    }
}

/// The copy with this number.
fn numbered(model: &PodObject, number: u64) -> PodObject {
    let mut pod = model.clone();
    pod.meta.name = format!("{}-{number}", model.meta.name);
    let full_name = pod.meta.full_name();
    pod.pod.uid = full_name.as_str().into();
    pod.pod.name = full_name;
    pod
}
