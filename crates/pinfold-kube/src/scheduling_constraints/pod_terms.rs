//! [`PodTerms`]: what a pod requires of the pods around it: affinity, anti-affinity, topology spread.

use std::collections::BTreeSet;

use super::label_selector::{LabelSelector, Labels};
use super::text;
use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// The required terms of a pod. Preferences are left out: they exclude no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodTerms {
    /// All must be met by a pod in the node's domain.
    pub affinity: Vec<AffinityTerm>,
    /// None may be met by a pod in the node's domain.
    pub anti_affinity: Vec<AffinityTerm>,
    /// The constraints with `DoNotSchedule`.
    pub spread: Vec<SpreadConstraint>,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffinityTerm {
    /// The label of nodes whose values are the domains.
    pub topology_key: String,
    /// The pods.
    pub selector: LabelSelector,
    /// The namespaces of the pods.
    pub namespaces: BTreeSet<String>,
    /// Further namespaces, by their labels.
    pub namespace_selector: LabelSelector,
    /// Whether the term names namespaces in either way; otherwise its pods are in the namespace of its own pod.
    names_namespaces: bool,
    match_label_keys: Vec<String>,
    mismatch_label_keys: Vec<String>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadConstraint {
    /// The label of nodes whose values are the domains.
    pub topology_key: String,
    /// The pods that are counted.
    pub selector: LabelSelector,
    /// The most pods that a domain may have more than the domain with the fewest.
    pub max_skew: i64,
    /// With fewer domains the fewest pods are taken to be 0.
    pub min_domains: usize,
    /// Whether only nodes that the pod selects count.
    pub honors_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates count.
    pub honors_taints: bool,
    match_label_keys: Vec<String>,
}

impl PodTerms {
    pub(super) fn read(spec: &FieldRef<'_>, report: &mut DiagnosticReport) -> Self {
        let affinity = spec.get("affinity");
        let mut terms = |key: &str| -> Vec<AffinityTerm> {
            let kind = affinity.as_ref().and_then(|affinity| affinity.get(key));
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            let terms = kind.map(|kind| kind.get_list(required, "a list", report));
            let terms = terms.unwrap_or_default();
            terms
                .iter()
                .map(|term| AffinityTerm::read(term, report))
                .collect()
        };
        let (affinity, anti_affinity) = (terms("podAffinity"), terms("podAntiAffinity"));
        let spread = spec.get_list("topologySpreadConstraints", "a list", report);
        let is_hard = |one: &&FieldRef<'_>| {
            !(one.get("whenUnsatisfiable")).is_some_and(|own| own.is_text("ScheduleAnyway"))
        };
        let spread = spread.iter().filter(is_hard);
        Self {
            affinity,
            anti_affinity,
            spread: spread
                .map(|one| SpreadConstraint::read(one, report))
                .collect(),
        }
    }

    /// Whether the pod requires nothing of other pods.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.spread.is_empty()
    }

    /// The terms of a pod of this namespace with these labels, as the API server and kube-scheduler complete them: label
    /// keys are part of the selectors, and a term without namespaces is about the pod's own.
    #[must_use]
    pub fn completed(&self, namespace: &str, labels: &Labels) -> Self {
        let mut terms = self.clone();
        for term in terms.affinity.iter_mut().chain(&mut terms.anti_affinity) {
            let keys = std::mem::take(&mut term.match_label_keys);
            term.selector.add_label_keys(&keys, "In", labels);
            let keys = std::mem::take(&mut term.mismatch_label_keys);
            term.selector.add_label_keys(&keys, "NotIn", labels);
            if !term.names_namespaces {
                term.namespaces.insert(namespace.to_owned());
            }
        }
        for constraint in &mut terms.spread {
            let keys = std::mem::take(&mut constraint.match_label_keys);
            constraint.selector.add_label_keys(&keys, "In", labels);
        }
        terms
    }

    /// The fields that are set, in a few words each.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        let set = [
            (!self.affinity.is_empty(), "pod affinity (no Node object)"),
            (
                !self.anti_affinity.is_empty(),
                "pod anti-affinity (no Node object)",
            ),
            (
                !self.spread.is_empty(),
                "topology spread constraints (no Node object)",
            ),
        ];
        set.into_iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, name)| name)
    }

    /// Whether a term selects namespaces by their labels.
    #[must_use]
    pub fn reads_namespace_labels(&self) -> bool {
        let mut terms = self.affinity.iter().chain(&self.anti_affinity);
        terms.any(|term| term.namespace_selector.reads_labels())
    }
}

impl AffinityTerm {
    fn read(term: &FieldRef<'_>, report: &mut DiagnosticReport) -> Self {
        let namespaces = list(term, "namespaces", report);
        let selected = term.get("namespaceSelector");
        Self {
            topology_key: text(term, "topologyKey", report).unwrap_or_default(),
            selector: LabelSelector::read(term.get("labelSelector").as_ref(), report),
            namespace_selector: LabelSelector::read(selected.as_ref(), report),
            names_namespaces: !namespaces.is_empty() || selected.is_some(),
            namespaces: namespaces.into_iter().collect(),
            match_label_keys: list(term, "matchLabelKeys", report),
            mismatch_label_keys: list(term, "mismatchLabelKeys", report),
        }
    }
}

impl SpreadConstraint {
    fn read(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Self {
        let number = |key: &str, report: &mut DiagnosticReport| {
            field
                .get(key)
                .and_then(|field| field.integer("a number", report))
        };
        let min_domains =
            number("minDomains", report).and_then(|found| usize::try_from(found).ok());
        let honors = |key: &str, default: bool| match field.get(key) {
            Some(policy) => policy.is_text("Honor"),
            None => default,
        };
        Self {
            topology_key: text(field, "topologyKey", report).unwrap_or_default(),
            selector: LabelSelector::read(field.get("labelSelector").as_ref(), report),
            max_skew: number("maxSkew", report).unwrap_or(1),
            min_domains: min_domains.unwrap_or(1),
            honors_affinity: honors("nodeAffinityPolicy", true),
            honors_taints: honors("nodeTaintsPolicy", false),
            match_label_keys: list(field, "matchLabelKeys", report),
        }
    }
}

fn list(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> Vec<String> {
    let items = field.get_list(key, "a list", report);
    let texts = items.iter().filter_map(|item| item.text("text", report));
    texts.map(str::to_owned).collect()
}
