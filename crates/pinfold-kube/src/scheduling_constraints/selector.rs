//! [`Selector`]: a pod's `nodeSelector` and the required part of its node affinity.

use std::collections::{BTreeMap, BTreeSet};

use super::unsupported;
use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// The operators of a requirement.
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// The nodes that a pod selects; all nodes if it selects none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that a node must have.
    labels: BTreeMap<String, String>,
    /// At least one of these terms must match; `None` if there are none.
    any_of: Option<Vec<Term>>,
    /// The only nodes that can match, if every term names nodes.
    names: Option<BTreeSet<String>>,
}

/// All requirements must match. An empty term never matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Term {
    labels: Vec<Requirement>,
    names: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Requirement {
    pub(super) key: String,
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
        let terms: Option<Vec<Term>> =
            terms.map(|terms| terms.iter().map(|term| read(term, report)).collect());
        Self {
            labels: labels.into_iter().collect(),
            names: terms.as_deref().and_then(node_names),
            any_of: terms,
        }
    }

    /// The nodes that the terms name, if each of them names nodes: kube-scheduler looks at no others.
    pub(super) fn node_names(&self) -> Option<&BTreeSet<String>> {
        self.names.as_ref()
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

/// The names in the terms; `None` if there is no term, or one that names no nodes. Mirrors `NodeAffinity.PreFilter`.
fn node_names(terms: &[Term]) -> Option<BTreeSet<String>> {
    let names_of = |term: &Term| {
        let named = term.names.iter();
        let named = named.filter(|one| one.key == "metadata.name" && one.operator == "In");
        let sets = named.map(|one| one.values.iter().cloned().collect::<BTreeSet<String>>());
        sets.reduce(|one, other| &one & &other)
    };
    let mut all = BTreeSet::new();
    for term in terms {
        all.extend(names_of(term)?);
    }
    (!terms.is_empty()).then_some(all)
}

fn read(term: &FieldRef<'_>, report: &mut DiagnosticReport) -> Term {
    let mut list = |key: &str| {
        let places = term.get_list(key, "a list", report);
        places
            .iter()
            .map(|field| Requirement::read(field, report))
            .collect()
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
    /// A requirement with one value.
    pub(super) fn new(key: &str, operator: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: vec![value.to_owned()],
        }
    }

    pub(super) fn read(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Self {
        let operator = text(field, "operator", report);
        if let Some(field) = field.get("operator")
            && !OPERATORS.contains(&operator.as_str())
        {
            field.rejected(unsupported(&operator, &OPERATORS.join(", ")), report);
        }
        Self {
            key: text(field, "key", report),
            operator,
            values: (field.get_list("values", "a list", report).iter())
                .filter_map(|value| value.text("text", report))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Whether the requirement matches a node's value, if it has one.
    pub(super) fn matches_value(&self, found: Option<&str>) -> bool {
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
