//! [`Inventory`]: a snapshot of a cluster: its objects and their scheduling constraints.

use std::collections::BTreeMap;

use pinfold_core::name::PodUid;

use crate::diagnostic::{Diagnostic, DiagnosticKind, DiagnosticReport, Diagnostics};
use crate::manifest::Document;
use crate::objects::ClusterObjects;
use crate::scheduling_constraints::{NodeConstraints, PodConstraints};

/// A snapshot of a cluster, without pods that have terminated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes, their reports, and pods.
    pub objects: ClusterObjects,
    /// Taints, labels and cordons of the nodes, by name.
    pub nodes: BTreeMap<String, NodeConstraints>,
    /// Selectors and tolerations of the pods.
    pub pods: BTreeMap<PodUid, PodConstraints>,
}

impl Inventory {
    /// Adds an object. Returns the warnings about it.
    ///
    /// # Errors
    /// If it cannot be understood, or is a pod of an id that is there already; nothing of it is added then.
    pub fn add(&mut self, document: &Document) -> Result<Vec<Diagnostic>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        let mut found = ClusterObjects::default();
        found.add(document, &mut report);
        for node in &found.nodes {
            let terms = NodeConstraints::of(node);
            self.nodes.insert(terms.name.clone(), terms);
        }
        let terms = PodConstraints::read(document);
        if terms.finished {
            found.pods.clear();
        }
        for pod in &found.pods {
            if self.pods.contains_key(&pod.pod.uid) {
                let message = format!("Duplicate value: {:?}", pod.pod.uid.as_str());
                report.error(
                    pod.at,
                    "metadata.uid",
                    DiagnosticKind::Rejected(message),
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
