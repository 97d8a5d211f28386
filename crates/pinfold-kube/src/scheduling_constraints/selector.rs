//! [`Selector`]: a pod's `nodeSelector` and the required part of its node affinity.

use std::collections::BTreeMap;

use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// The nodes that a pod selects; all nodes if it selects none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that a node must have.
    labels: BTreeMap<String, String>,
    /// At least one of these terms must match; `None` if there are none.
    any_of: Option<Vec<Term>>,
}

/// All requirements must match. An empty term never matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Term {
    labels: Vec<Requirement>,
    names: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    pub(super) fn read(spec: &FieldRef<'_>, report: &mut DiagnosticReport) -> Self {
        let labels = spec.get("nodeSelector");
        let labels = labels.iter().flat_map(FieldRef::members);
        let labels: Vec<_> = labels
            .filter_map(|(key, value)| Some((key.to_owned(), value.text("text", report)?)))
            .map(|(key, value)| (key, value.to_owned()))
            .collect();
        let required = spec
            .get("affinity")
            .and_then(|affinity| affinity.get("nodeAffinity"))
            .and_then(|affinity| affinity.get("requiredDuringSchedulingIgnoredDuringExecution"));
        let terms =
            required.map(|required| required.get_list("nodeSelectorTerms", "a list", report));
        Self {
            labels: labels.into_iter().collect(),
            any_of: terms.map(|terms| terms.iter().map(|term| read(term, report)).collect()),
        }
    }

    /// Whether every node is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.any_of.is_none()
    }

    /// Whether a node with this name and these labels is selected.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let mut wanted = self.labels.iter();
        if !wanted.all(|(key, value)| labels.get(key) == Some(value)) {
            return false;
        }
        let matches_value = |term: &Term| {
            let label =
                |one: &Requirement| one.matches_value(labels.get(&one.key).map(String::as_str));
            // `metadata.name` is the only node field that can be selected by.
            let field =
                |one: &Requirement| one.key == "metadata.name" && one.matches_value(Some(name));
            !(term.labels.is_empty() && term.names.is_empty())
                && term.labels.iter().all(label)
                && term.names.iter().all(field)
        };
        self.any_of
            .as_ref()
            .is_none_or(|terms| terms.iter().any(matches_value))
    }
}

fn read(term: &FieldRef<'_>, report: &mut DiagnosticReport) -> Term {
    let mut list = |key: &str| {
        let places = term.get_list(key, "a list", report);
        let one = |field: &FieldRef<'_>| Requirement {
            key: text(field, "key", report),
            operator: text(field, "operator", report),
            values: (field.get_list("values", "a list", report).iter())
                .filter_map(|value| value.text("text", report))
                .map(str::to_owned)
                .collect(),
        };
        places.iter().map(one).collect()
    };
    Term {
        labels: list("matchExpressions"),
        names: list("matchFields"),
    }
}

fn text(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> String {
    field
        .get_text(key, "text", report)
        .unwrap_or_default()
        .to_owned()
}

impl Requirement {
    /// Whether the requirement matches a node's value, if it has one.
    fn matches_value(&self, found: Option<&str>) -> bool {
        let listed = || found.is_some_and(|found| self.values.iter().any(|value| value == found));
        let compared = || {
            let found: i64 = found?.parse().ok()?;
            let value: i64 = self.values.first()?.parse().ok()?;
            Some(found.cmp(&value))
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
            "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
            _ => false,
        }
    }
}
