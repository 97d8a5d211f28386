//! [`Inventory`]: a cluster at one moment: its objects, and what they say about each other.

use std::collections::BTreeMap;

use pinfold_core::name::PodUid;

use crate::diagnostic::{Diagnostic, DiagnosticKind, DiagnosticReport, Diagnostics};
use crate::manifest::Document;
use crate::objects::ClusterObjects;
use crate::scheduling_constraints::{NodeConstraints, PodConstraints};

/// Everything a cluster says. Pods that have ended are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes, their reports, and pods.
    pub objects: ClusterObjects,
    /// What nodes say about pods, by name.
    pub nodes: BTreeMap<String, NodeConstraints>,
    /// What pods say about nodes.
    pub pods: BTreeMap<PodUid, PodConstraints>,
}

impl Inventory {
    /// Adds what one object says. Returns what is odd about it.
    ///
    /// # Errors
    /// If it cannot be understood, or is a pod of an id that is there already; nothing of it is added then.
    pub fn add(&mut self, document: &Document) -> Result<Vec<Diagnostic>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        let mut found = ClusterObjects::default();
        found.add(document, &mut report);
        if document.kind() == "Node" {
            let terms = NodeConstraints::read(document);
            self.nodes.insert(terms.name.clone(), terms);
        }
        let terms = PodConstraints::read(document);
        if terms.finished {
            found.pods.clear();
        }
        for pod in &found.pods {
            if self.pods.contains_key(&pod.pod.uid) {
                let words = format!("Duplicate value: {:?}", pod.pod.uid.as_str());
                report.error(
                    pod.at,
                    "metadata.uid",
                    DiagnosticKind::Rejected(words),
                    None,
                );
            }
        }
        let found = report.finish(found)?;
        for pod in &found.value.pods {
            self.pods.insert(pod.pod.uid.clone(), terms.clone());
        }
        self.objects.append(found.value);
        Ok(found.warnings)
    }
}
