//! Filter: which nodes will admit a pod, and why the others will not.

use std::sync::Arc;

use pinfold_cluster::Evaluation;

use super::reason::{self, RejectionClass};
use super::wire::{ExtenderArgs, FailedNodes, FilterResult, NodeList};
use super::{BadRequest, Extender};
use crate::cache::pending_headroom::MaxDemand;
use crate::cache::pod_info::PodInfo;
use crate::cache::{Cache, ReportedDialect};
use crate::config::Fallback;

/// The verdict about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// The node will admit the pod.
    Fits,
    /// The node will reject the pod, with the class and text of the reason.
    Rejected(RejectionClass, String),
}

impl Cache {
    /// The verdicts about nodes, in the order of `names`.
    pub fn filter(&mut self, info: &PodInfo, names: &[&str]) -> Vec<NodeVerdict> {
        if let Some(node) = self.unconfirmed_node(info.uid()) {
            // The pod may be bound to that node already: binding may be retried only there.
            let reason = || NodeVerdict::Rejected(RejectionClass::Pod, reason::maybe_bound(node));
            return names
                .iter()
                .map(|name| match *name == node.as_str() {
                    true => NodeVerdict::Fits,
                    false => reason(),
                })
                .collect();
        }
        if !info.needs_numa && !self.has_koordinator_nodes() {
            return vec![NodeVerdict::Fits; names.len()];
        }
        let policy = self.policy.nodes;
        let demand = self.requires_headroom(info).then(|| MaxDemand::of(info));
        let Self { cluster, nodes, .. } = self;
        let evaluations = cluster.evaluate_nodes(&info.request, names.iter().copied());
        let rejected = |class, text: &str| NodeVerdict::Rejected(class, text.to_owned());
        let verdicts = names.iter().zip(evaluations).map(|(name, evaluation)| {
            let record = nodes.get(*name).filter(|record| record.node.is_some());
            let (Some(record), Some(evaluation)) = (record, evaluation) else {
                return rejected(RejectionClass::UnknownNode, reason::UNKNOWN_NODE);
            };
            if info.needs_numa {
                match record.dialect {
                    ReportedDialect::Invalid => {
                        return rejected(RejectionClass::InvalidReport, reason::INVALID_REPORT);
                    }
                    ReportedDialect::Unknown if policy.without_report == Fallback::Reject => {
                        return rejected(RejectionClass::NoReport, reason::NO_REPORT);
                    }
                    ReportedDialect::Koordinator if info.koordinator_error.is_some() => {
                        let text = info.koordinator_error.as_deref().unwrap_or_default();
                        return NodeVerdict::Rejected(RejectionClass::Pod, reason::truncate(text));
                    }
                    _ if record.stale && policy.stale_report == Fallback::Reject => {
                        return rejected(RejectionClass::StaleReport, reason::STALE_REPORT);
                    }
                    _ => {}
                }
            }
            if let Evaluation::Rejected(rejection) = evaluation.evaluation {
                return NodeVerdict::Rejected(RejectionClass::of(rejection), reason::of(rejection));
            }
            match demand
                .as_ref()
                .is_none_or(|demand| record.has_headroom_for(demand))
            {
                true => NodeVerdict::Fits,
                false => rejected(RejectionClass::NoHeadroom, reason::NO_HEADROOM),
            }
        });
        verdicts.collect()
    }
}

/// The outcome of a filter request, for metrics and requeueing.
#[derive(Clone, Debug, Default)]
pub struct FilterSummary {
    /// The pod.
    pub info: Option<Arc<PodInfo>>,
    /// The number of nodes in the request.
    pub nodes: usize,
    /// The number of rejected nodes by class.
    pub rejections: Vec<(&'static str, u64)>,
    /// The number of nodes that passed.
    pub passed: usize,
}

impl Extender {
    /// Handles a filter request. The response is JSON.
    ///
    /// # Errors
    /// If the request is malformed.
    pub fn filter(&self, body: &[u8]) -> Result<(Vec<u8>, FilterSummary), BadRequest> {
        let args: ExtenderArgs<'_> = serde_json::from_slice(body)
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let info = self.pod_info(args.pod)?;
        let by_name = args.node_names.as_ref();
        let names = (args.names()).map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let verdicts = self.cache().filter(&info, &names);
        let mut outcome = FilterSummary {
            nodes: names.len(),
            info: Some(info),
            ..FilterSummary::default()
        };
        let (mut failed, mut unresolvable) = (Vec::new(), Vec::new());
        let mut passed = Vec::with_capacity(names.len());
        for (at, (name, verdict)) in names.iter().zip(verdicts).enumerate() {
            let NodeVerdict::Rejected(class, reason) = verdict else {
                passed.push(at);
                continue;
            };
            match outcome
                .rejections
                .iter_mut()
                .find(|(own, _)| *own == class.name())
            {
                Some((_, count)) => *count += 1,
                None => outcome.rejections.push((class.name(), 1)),
            }
            match class.is_unresolvable() {
                true => unresolvable.push((*name, reason)),
                false => failed.push((*name, reason)),
            }
        }
        outcome.passed = passed.len();
        let names_of = || {
            passed
                .iter()
                .filter_map(|at| names.get(*at).copied())
                .collect()
        };
        let result = FilterResult {
            node_names: by_name.map(|_| names_of()),
            nodes: match (by_name, &args.nodes) {
                (None, Some(nodes)) => {
                    let items = passed.iter().filter_map(|at| nodes.items.get(*at).copied());
                    Some(NodeList {
                        items: items.collect(),
                    })
                }
                _ => None,
            },
            failed_nodes: FailedNodes(failed),
            failed_and_unresolvable_nodes: FailedNodes(unresolvable),
            error: String::new(),
        };
        let response = serde_json::to_vec(&result).unwrap_or_default();
        Ok((response, outcome))
    }
}
