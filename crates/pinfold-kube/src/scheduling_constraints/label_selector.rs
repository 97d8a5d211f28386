//! [`LabelSelector`]: selects pods or namespaces by their labels.

use std::collections::BTreeMap;

use super::selector::Requirement;
use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// A `LabelSelector` of the API: nothing if it is missing, everything if it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSelector {
    /// All must match; `None` if nothing is selected.
    requirements: Option<Vec<Requirement>>,
}

impl LabelSelector {
    pub(super) fn read(field: Option<&FieldRef<'_>>, report: &mut DiagnosticReport) -> Self {
        let Some(field) = field else {
            return Self::default();
        };
        let mut requirements = Vec::new();
        let labels = field.get("matchLabels");
        for (key, value) in labels.iter().flat_map(FieldRef::members) {
            if let Some(value) = value.text("text", report) {
                requirements.push(Requirement::new(key, "In", value));
            }
        }
        let expressions = field.get_list("matchExpressions", "a list", report);
        requirements.extend(
            expressions
                .iter()
                .map(|field| Requirement::read(field, report)),
        );
        Self {
            requirements: Some(requirements),
        }
    }

    /// Whether it selects an object with these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        let Some(requirements) = &self.requirements else {
            return false;
        };
        let mut all = requirements.iter();
        all.all(|one| one.matches_value(labels.get(&one.key).map(String::as_str)))
    }

    /// Whether it selects every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether labels decide what it selects.
    #[must_use]
    pub fn reads_labels(&self) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|own| !own.is_empty())
    }

    /// Adds a requirement for each of these keys that a pod has as a label, as the API server does for
    /// `matchLabelKeys` (`In`) and `mismatchLabelKeys` (`NotIn`). A missing selector stays missing.
    pub(super) fn add_label_keys(&mut self, keys: &[String], operator: &str, labels: &Labels) {
        let Some(requirements) = &mut self.requirements else {
            return;
        };
        for key in keys {
            if let Some(value) = labels.get(key) {
                requirements.push(Requirement::new(key, operator, value));
            }
        }
    }
}
