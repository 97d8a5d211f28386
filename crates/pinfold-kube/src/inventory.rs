//! [`Inventory`]: a cluster at one moment: its objects, and what they say about each other.

use std::collections::BTreeMap;

use pinfold_core::name::PodUid;

use crate::finding::{Finding, Findings, Problem, Report};
use crate::manifest::Document;
use crate::objects::Objects;
use crate::terms::{NodeTerms, PodTerms};

/// Everything a cluster says. Pods that have ended are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes, their reports, and pods.
    pub objects: Objects,
    /// What nodes say about pods, by name.
    pub nodes: BTreeMap<String, NodeTerms>,
    /// What pods say about nodes.
    pub pods: BTreeMap<PodUid, PodTerms>,
}

impl Inventory {
    /// Adds what one object says. Returns what is odd about it.
    ///
    /// # Errors
    /// If it cannot be understood, or is a pod of an id that is there already; nothing of it is added then.
    pub fn add(&mut self, document: &Document) -> Result<Vec<Finding>, Findings> {
        let mut report = Report::new(document.file());
        let mut found = Objects::default();
        found.add(document, &mut report);
        if document.kind() == "Node" {
            let terms = NodeTerms::read(document);
            self.nodes.insert(terms.name.clone(), terms);
        }
        let terms = PodTerms::read(document);
        if terms.finished {
            found.pods.clear();
        }
        for pod in &found.pods {
            if self.pods.contains_key(&pod.pod.uid) {
                let words = format!("Duplicate value: {:?}", pod.pod.uid.as_str());
                report.error(pod.at, "metadata.uid", Problem::Rejected(words), None);
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
