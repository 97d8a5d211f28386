//! Filter: which nodes will take a pod, and for the others why not.

use std::sync::Arc;

use pinfold_core::cluster::Evaluation;

use super::reason::{self, Class};
use super::wire::{Args, FilterResult, Named, NodeList, Reasons};
use super::{BadRequest, Extender};
use crate::cache::firm::Demand;
use crate::cache::pod::Asked;
use crate::cache::{Cache, Kind};
use crate::config::Doubt;

/// What is said about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It will take the pod.
    Yes,
    /// It will not.
    No(Class, String),
}

impl Cache {
    /// What is said about nodes, in the order in which they are named.
    pub fn filter(&mut self, asked: &Asked, names: &[&str]) -> Vec<Said> {
        if let Some(place) = self.doubtful(asked.uid()) {
            // It may be there by now: nowhere else can it be tried again.
            let elsewhere = || Said::No(Class::Pod, reason::in_doubt(place));
            return names
                .iter()
                .map(|name| match *name == place.as_str() {
                    true => Said::Yes,
                    false => elsewhere(),
                })
                .collect();
        }
        if !asked.needs && !self.has_koordinator() {
            return vec![Said::Yes; names.len()];
        }
        let policy = self.policy.nodes;
        let demand = self.minds_doubts(asked).then(|| Demand::of(asked));
        let Self { cluster, nodes, .. } = self;
        let opinions = cluster.evaluate_nodes(&asked.ask, names.iter().copied());
        let rejected = |class, words: &str| Said::No(class, words.to_owned());
        let said = names.iter().zip(opinions).map(|(name, opinion)| {
            let record = nodes.get(*name).filter(|record| record.node.is_some());
            let (Some(record), Some(opinion)) = (record, opinion) else {
                return rejected(Class::Unknown, reason::UNKNOWN);
            };
            if asked.needs {
                match record.kind {
                    Kind::Unreadable => return rejected(Class::Unreadable, reason::UNREADABLE),
                    Kind::Unknown if policy.without_report == Doubt::Reject => {
                        return rejected(Class::Unreported, reason::UNREPORTED);
                    }
                    Kind::Koordinator if asked.misspelt.is_some() => {
                        let words = asked.misspelt.as_deref().unwrap_or_default();
                        return Said::No(Class::Pod, reason::shortened(words));
                    }
                    _ if record.behind && policy.behind == Doubt::Reject => {
                        return rejected(Class::Behind, reason::BEHIND);
                    }
                    _ => {}
                }
            }
            if let Evaluation::Rejected(rejection) = opinion.evaluation {
                return Said::No(Class::of(rejection), reason::of(rejection));
            }
            match demand
                .as_ref()
                .is_none_or(|asked| record.is_firm_for(asked))
            {
                true => Said::Yes,
                false => rejected(Class::Busy, reason::BUSY),
            }
        });
        said.collect()
    }
}

/// What filter found, for metrics and those who wait.
#[derive(Clone, Debug, Default)]
pub struct Filtered {
    /// The pod.
    pub asked: Option<Arc<Asked>>,
    /// How many nodes were asked about.
    pub nodes: usize,
    /// How many rejected for each class.
    pub rejections: Vec<(&'static str, u64)>,
    /// How many nodes passed.
    pub passed: usize,
}

impl Extender {
    /// Answers a request. The answer is JSON.
    ///
    /// # Errors
    /// If the request makes no sense.
    pub fn filter(&self, body: &[u8]) -> Result<(Vec<u8>, Filtered), BadRequest> {
        let args: Args<'_> = serde_json::from_slice(body)
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let asked = self.asked(args.pod)?;
        let named: Vec<Named<'_>>;
        let by_name = args.node_names.as_ref();
        let names: Vec<&str> = match (by_name, &args.nodes) {
            (Some(names), _) => names.iter().map(|name| &*name.0).collect(),
            (None, Some(nodes)) => {
                let read = nodes
                    .items
                    .iter()
                    .map(|node| serde_json::from_str(node.get()));
                named = read
                    .collect::<Result<_, _>>()
                    .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
                named.iter().map(|named| &*named.metadata.name).collect()
            }
            (None, None) => Vec::new(),
        };
        let said = self.cache().filter(&asked, &names);
        let mut filtered = Filtered {
            nodes: names.len(),
            asked: Some(asked),
            ..Filtered::default()
        };
        let (mut failed, mut hopeless) = (Vec::new(), Vec::new());
        let mut passed = Vec::with_capacity(names.len());
        for (at, (name, said)) in names.iter().zip(said).enumerate() {
            let Said::No(class, words) = said else {
                passed.push(at);
                continue;
            };
            match filtered
                .rejections
                .iter_mut()
                .find(|(own, _)| *own == class.name())
            {
                Some((_, count)) => *count += 1,
                None => filtered.rejections.push((class.name(), 1)),
            }
            match class.is_final() {
                true => hopeless.push((*name, words)),
                false => failed.push((*name, words)),
            }
        }
        filtered.passed = passed.len();
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
            failed_nodes: Reasons(failed),
            failed_and_unresolvable_nodes: Reasons(hopeless),
            error: String::new(),
        };
        let answer = serde_json::to_vec(&result).unwrap_or_default();
        Ok((answer, filtered))
    }
}
