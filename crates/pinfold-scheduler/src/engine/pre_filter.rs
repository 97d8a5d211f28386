//! [`Cache::pre_filter`]: one answer about all nodes, with one bit per node.

use std::sync::Arc;

use pinfold_cluster::{DecisionBudget, FitScore, volcano};
use pinfold_core::name::NodeName;

use super::filter::{Cause, PodCheck, known};
use super::reason::{self, RejectionClass};
use crate::cache::pod_info::PodInfo;
use crate::cache::{Cache, NodeNames};
use crate::weights::Weights;

/// The most decisions about containers in one call: those about a pod of 20 containers on 5,000 nodes in different
/// states. The lock of the cache is held meanwhile.
const MAX_DECISIONS: usize = 100_000;
/// The most reasons of one answer. Further ones of a class share one text.
const MAX_REASONS: usize = 32;

/// A set of nodes, by their index in the names of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeBits(Vec<u8>);

impl NodeBits {
    /// An empty set with room for so many nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(8)])
    }

    /// Adds a node.
    pub fn insert(&mut self, at: usize) {
        if let Some(byte) = self.0.get_mut(at / 8) {
            *byte |= 1 << (at % 8);
        }
    }

    /// Removes a node.
    pub fn remove(&mut self, at: usize) {
        if let Some(byte) = self.0.get_mut(at / 8) {
            *byte &= !(1 << (at % 8));
        }
    }

    /// Whether it has the node.
    #[must_use]
    pub fn contains(&self, at: usize) -> bool {
        self.0
            .get(at / 8)
            .is_some_and(|byte| byte & (1 << (at % 8)) != 0)
    }

    /// The number of nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        let ones = self.0.iter().map(|byte| byte.count_ones() as usize);
        ones.sum()
    }

    /// One bit per node: bit `i % 8` of byte `i / 8`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The nodes that take a pod.
#[derive(Clone, Debug)]
pub struct FittingNodes {
    /// The names of all nodes.
    pub names: Arc<NodeNames>,
    /// Those that take the pod.
    pub fits: NodeBits,
}

impl FittingNodes {
    /// Whether a node took the pod. `false` for a node that was not there.
    #[must_use]
    pub fn took(&self, node: &NodeName) -> bool {
        let at = self.names.index(node);
        at.is_some_and(|at| self.fits.contains(at))
    }
}

/// Nodes that reject a pod for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectionGroup {
    /// The class of the reason.
    pub class: RejectionClass,
    /// The reason.
    pub reason: String,
    /// The nodes.
    pub nodes: NodeBits,
}

/// The answer about all nodes.
#[derive(Clone, Debug)]
pub struct PreFilterAnswer {
    /// The nodes that take the pod.
    pub fitting: FittingNodes,
    /// Their scores from 0 to 100, in the order of their names.
    pub scores: Vec<u8>,
    /// The other nodes by reason.
    pub rejections: Vec<RejectionGroup>,
    /// Whether nodes were not evaluated, because the pod has too many containers for all of them in one call.
    pub postponed: bool,
}

impl Cache {
    /// Evaluates a pod on all nodes. The cluster caches scores: after a change of the weights its cache has to be
    /// cleared.
    pub fn pre_filter(&mut self, info: &PodInfo, weights: &Weights) -> PreFilterAnswer {
        let names = self.node_names();
        let count = names.names.len();
        let mut fits = NodeBits::new(count);
        let mut groups = RejectionGroups::new(count);
        let mut scores = Vec::new();
        let mut postponed = false;
        let unconfirmed = self.unconfirmed_node(info.uid()).cloned();
        if let Some(node) = &unconfirmed {
            // The pod may be bound to that node already: binding may be retried only there.
            for (at, name) in names.names.iter().enumerate() {
                match name == node {
                    true => {
                        fits.insert(at);
                        scores.push(0);
                    }
                    false => groups.add_text(at, RejectionClass::Pod, reason::maybe_bound(node)),
                }
            }
        } else if self.passes_everywhere(info) {
            (0..count).for_each(|at| fits.insert(at));
            scores = vec![0; count];
        } else {
            let check = PodCheck::new(self, info);
            let volcano_weight = self.dialect_args.volcano_weight;
            let Self { cluster, nodes, .. } = self;
            let mut of_volcano = Vec::new();
            let mut budget = DecisionBudget::new(MAX_DECISIONS);
            let evaluations = cluster.evaluate_slots(&info.request, &names.slots, &mut budget);
            for ((at, entry), cached) in names.entries.iter().enumerate().zip(evaluations) {
                let record = nodes.get_index(*entry).map(|(_, record)| record);
                let (record, cached) = match known(record, cached) {
                    Ok(known) => known,
                    Err(cause) => {
                        postponed |= cause.class() == RejectionClass::Postponed;
                        groups.add(at, cause);
                        continue;
                    }
                };
                match check.verdict(record, cached.evaluation) {
                    Err(cause) => groups.add(at, cause),
                    Ok(fit) => {
                        if let Some(fit) = fit
                            && let FitScore::NumaNodes(span) = fit.score
                        {
                            of_volcano.push((scores.len(), cached.node, fit, span));
                        }
                        let score = || weights.score(&info.request, cached.node, fit);
                        let score = cached.cached_score.get().unwrap_or_else(score);
                        cached.cached_score.set(Some(score));
                        fits.insert(at);
                        scores.push(u8::try_from(score.clamp(0, 100)).unwrap_or(0));
                    }
                }
            }
            // Volcano scores its nodes relative to each other.
            let spans: Vec<usize> = of_volcano.iter().map(|(.., span)| *span).collect();
            for ((at, node, fit, _), own) in of_volcano
                .into_iter()
                .zip(volcano::score::scores(&spans, 1))
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a whole number from 0 to 100"
                )]
                let own = own as i64;
                let score = weights.volcano_score(&info.request, node, fit, own, volcano_weight);
                scores[at] = u8::try_from(score.clamp(0, 100)).unwrap_or(0);
            }
        }
        PreFilterAnswer {
            fitting: FittingNodes { names, fits },
            scores,
            rejections: groups.groups,
            postponed,
        }
    }
}

/// Collects nodes by reason.
struct RejectionGroups<'a> {
    nodes: usize,
    groups: Vec<RejectionGroup>,
    /// The cause that each of the first groups was made for: equal causes need no text.
    causes: Vec<(Cause<'a>, usize)>,
}

impl<'a> RejectionGroups<'a> {
    fn new(nodes: usize) -> Self {
        Self {
            nodes,
            groups: Vec::new(),
            causes: Vec::new(),
        }
    }

    fn add(&mut self, at: usize, cause: Cause<'a>) {
        if let Some((_, group)) = self.causes.iter().find(|(own, _)| *own == cause) {
            return self.insert(*group, at);
        }
        self.add_text(at, cause.class(), cause.text().into_owned());
        if self.causes.len() < MAX_REASONS {
            let text = cause.text();
            let group = self.groups.iter().position(|own| own.reason == text);
            self.causes.extend(group.map(|group| (cause, group)));
        }
    }

    fn add_text(&mut self, at: usize, class: RejectionClass, text: String) {
        let is_full = self.groups.len() >= MAX_REASONS;
        let own = self.groups.iter().position(|group| group.reason == text);
        let (text, own) = match own {
            None if is_full => {
                let text = reason::further(class);
                let own = self.groups.iter().position(|group| group.reason == text);
                (text.to_owned(), own)
            }
            own => (text, own),
        };
        let group = own.unwrap_or_else(|| {
            self.groups.push(RejectionGroup {
                class,
                reason: text,
                nodes: NodeBits::new(self.nodes),
            });
            self.groups.len() - 1
        });
        self.insert(group, at);
    }

    fn insert(&mut self, group: usize, at: usize) {
        if let Some(group) = self.groups.get_mut(group) {
            group.nodes.insert(at);
        }
    }
}
