//! Which nodes take a pod, and why the others do not: as they are, and with pods added and removed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pinfold_cluster::{
    BoundedEvaluation, CachedEvaluation, DecisionBudget, Evaluation, Fit, NodeRejection,
};
use pinfold_core::name::{NodeName, PodUid};

use super::reason::{self, RejectionClass};
use crate::cache::node::NodeEntry;
use crate::cache::pending_headroom::MaxDemand;
use crate::cache::pod_info::PodInfo;
use crate::cache::{Cache, ReportedDialect};
use crate::config::{Fallback, NodeFallbacks};

/// The verdict about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// The node will admit the pod.
    Fits,
    /// The node will reject the pod, with the class and text of the reason.
    Rejected(RejectionClass, String),
}

/// Why a node rejects a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause<'a> {
    /// The state of its report.
    Report(RejectionClass),
    /// The pod cannot be parsed for the dialect of the node.
    Pod(&'a str),
    /// The rules of the node.
    Rules(&'a NodeRejection),
}

impl Cause<'_> {
    pub(super) fn class(&self) -> RejectionClass {
        match self {
            Cause::Report(class) => *class,
            Cause::Pod(_) => RejectionClass::Pod,
            Cause::Rules(rejection) => RejectionClass::of(rejection),
        }
    }

    pub(super) fn text(&self) -> Cow<'static, str> {
        match self {
            Cause::Report(class) => Cow::Borrowed(class.text()),
            Cause::Pod(text) => reason::truncate(text).into(),
            Cause::Rules(rejection) => reason::of(rejection).into(),
        }
    }
}

impl From<Cause<'_>> for NodeVerdict {
    fn from(cause: Cause<'_>) -> Self {
        NodeVerdict::Rejected(cause.class(), cause.text().into_owned())
    }
}

/// A pod that is evaluated, with what the configuration requires of nodes for it.
pub(super) struct PodCheck<'a> {
    info: &'a PodInfo,
    policy: NodeFallbacks,
    /// The demand that a node must have headroom for, if headroom is required.
    demand: Option<MaxDemand>,
}

impl<'a> PodCheck<'a> {
    pub(super) fn new(cache: &Cache, info: &'a PodInfo) -> Self {
        Self {
            info,
            policy: cache.policy.nodes,
            demand: cache.requires_headroom(info).then(|| MaxDemand::of(info)),
        }
    }

    /// Why the state of the node or the pod itself excludes the node, whatever is free there.
    fn excluded(&self, record: &NodeEntry) -> Option<Cause<'a>> {
        if !self.info.needs_numa {
            return None;
        }
        match record.dialect {
            ReportedDialect::Invalid => Some(Cause::Report(RejectionClass::InvalidReport)),
            // A node that is new has no report yet.
            ReportedDialect::Unknown if self.policy.without_report == Fallback::Reject => {
                let is_labelled = record.has_dialect_label();
                (!is_labelled).then_some(Cause::Report(RejectionClass::NoReport))
            }
            ReportedDialect::Koordinator => {
                let error = self.info.koordinator_error.as_deref();
                error.map(Cause::Pod)
            }
            _ if record.overdue && self.policy.stale_report == Fallback::Reject => {
                Some(Cause::Report(RejectionClass::StaleReport))
            }
            _ => None,
        }
    }

    /// The verdict about a node as it is: the fit, or why it rejects the pod.
    pub(super) fn verdict<'e>(
        &self,
        record: &NodeEntry,
        evaluation: &'e Evaluation,
    ) -> Result<Option<&'e Fit>, Cause<'e>>
    where
        'a: 'e,
    {
        if let Some(cause) = self.excluded(record) {
            return Err(cause);
        }
        // Where its unreported pods are is unknown: so is what is free.
        if self.demand.is_some() && record.stale {
            return Err(Cause::Report(RejectionClass::NoHeadroom));
        }
        let fit = match evaluation {
            Evaluation::Rejected(rejection) => return Err(Cause::Rules(rejection)),
            Evaluation::Fits(fit) => Some(fit),
            Evaluation::FitsInTotal => None,
        };
        let has_headroom = |demand: &MaxDemand| record.has_headroom_for(demand);
        match self.demand.as_ref().is_none_or(has_headroom) {
            true => Ok(fit),
            false => Err(Cause::Report(RejectionClass::NoHeadroom)),
        }
    }
}

/// A node with its evaluation; why there is none.
pub(super) fn known<'n, 'e>(
    record: Option<&'n NodeEntry>,
    evaluation: BoundedEvaluation<'e>,
) -> Result<(&'n NodeEntry, CachedEvaluation<'e>), Cause<'e>> {
    match (record, evaluation) {
        (Some(record), BoundedEvaluation::Evaluated(cached)) => Ok((record, cached)),
        (Some(_), BoundedEvaluation::Postponed) => Err(Cause::Report(RejectionClass::Postponed)),
        _ => Err(Cause::Report(RejectionClass::UnknownNode)),
    }
}

impl Cache {
    /// Whether every node takes the pod, because no rule of any node applies to it.
    pub(super) fn passes_everywhere(&self, info: &PodInfo) -> bool {
        !info.needs_numa && !self.has_koordinator_nodes()
    }

    /// The verdicts about nodes, in the order of `names`.
    pub fn filter(&mut self, info: &PodInfo, names: &[&str]) -> Vec<NodeVerdict> {
        self.filter_within(info, names, &mut { DecisionBudget::UNLIMITED })
    }

    /// The verdicts about nodes, in the order of `names`, as far as the budget suffices.
    pub(crate) fn filter_within(
        &mut self,
        info: &PodInfo,
        names: &[&str],
        budget: &mut DecisionBudget,
    ) -> Vec<NodeVerdict> {
        if let Some(node) = self.unconfirmed_node(info.uid()) {
            // The pod may be bound to that node already: binding may be retried only there.
            let reason = || NodeVerdict::Rejected(RejectionClass::Pod, reason::maybe_bound(node));
            let is_node = |name: &&str| **name == *node.as_str();
            let verdicts = names.iter().map(|name| match is_node(name) {
                true => NodeVerdict::Fits,
                false => reason(),
            });
            return verdicts.collect();
        }
        if self.passes_everywhere(info) {
            return vec![NodeVerdict::Fits; names.len()];
        }
        let check = PodCheck::new(self, info);
        let Self { cluster, nodes, .. } = self;
        let evaluations = cluster.evaluate_nodes(&info.request, names.iter().copied(), budget);
        let verdicts = names.iter().zip(evaluations).map(|(name, evaluation)| {
            let record = nodes.get(*name).filter(|record| record.node.is_some());
            let (record, cached) = match known(record, evaluation) {
                Ok(known) => known,
                Err(cause) => return cause.into(),
            };
            match check.verdict(record, cached.evaluation) {
                Ok(_) => NodeVerdict::Fits,
                Err(cause) => cause.into(),
            }
        });
        verdicts.collect()
    }

    /// The verdict about a node as it would be without the pods `removed` and with the pods `added`. Headroom is not
    /// required: whether evictions help is decided before the kubelet has seen them.
    #[must_use]
    pub fn filter_changed(
        &self,
        info: &PodInfo,
        name: &NodeName,
        added: &[Arc<PodInfo>],
        removed: &BTreeSet<PodUid>,
        now: Instant,
    ) -> NodeVerdict {
        if self.passes_everywhere(info) {
            return NodeVerdict::Fits;
        }
        let Some(record) = self.nodes.get(name).filter(|record| record.node.is_some()) else {
            return Cause::Report(RejectionClass::UnknownNode).into();
        };
        if let Some(cause) = PodCheck::new(self, info).excluded(record) {
            return cause.into();
        }
        match self.evaluate_changed(info, name, added, removed, now) {
            Evaluation::Rejected(rejection) => Cause::Rules(&rejection).into(),
            Evaluation::Fits(_) | Evaluation::FitsInTotal => NodeVerdict::Fits,
        }
    }
}
