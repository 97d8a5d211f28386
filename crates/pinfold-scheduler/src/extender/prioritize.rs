//! Prioritize: how good each node is for a pod.

use pinfold_core::cluster::{CachedEvaluation, Evaluation};

use super::wire::{Args, HostPriority, Named};
use super::{BadRequest, Extender};
use crate::cache::Cache;
use crate::cache::pod::Asked;
use crate::weights::Weights;

impl Cache {
    /// The scores of nodes, in the order in which they are named. Scores are noted: whoever changes the weights has to let
    /// the cluster forget its answers.
    pub fn prioritize(&mut self, asked: &Asked, names: &[&str], weights: &Weights) -> Vec<i64> {
        if !asked.needs && !self.has_koordinator() {
            return vec![0; names.len()];
        }
        let opinions = self
            .cluster
            .evaluate_nodes(&asked.ask, names.iter().copied());
        let score = |opinion: Option<CachedEvaluation<'_>>| {
            let CachedEvaluation {
                node,
                evaluation,
                cached_score,
            } = opinion?;
            let fit = match evaluation {
                Evaluation::Fits(fit) => Some(fit),
                Evaluation::FitsInTotal => None,
                Evaluation::Rejected(_) => return None,
            };
            let score = cached_score
                .get()
                .unwrap_or_else(|| weights.score(&asked.ask, node, fit));
            cached_score.set(Some(score));
            Some(score)
        };
        let scores = opinions.into_iter().map(score);
        scores.map(Option::unwrap_or_default).collect()
    }
}

impl Extender {
    /// Answers a request. The answer is JSON.
    ///
    /// # Errors
    /// If the request makes no sense.
    pub fn prioritize(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let args: Args<'_> = serde_json::from_slice(body)
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let asked = self.asked(args.pod)?;
        let named: Vec<Named<'_>>;
        let names: Vec<&str> = match (&args.node_names, &args.nodes) {
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
        let scores = {
            let mut cache = self.cache();
            cache.prioritize(&asked, &names, &self.weights())
        };
        // Only differences count, and a node that is not named has nothing: the worst ones need not be read.
        let least = scores.iter().copied().min().unwrap_or(0);
        let scores = names.iter().zip(scores);
        let scores: Vec<HostPriority<'_>> = scores
            .filter(|(_, score)| *score > least)
            .map(|(host, score)| HostPriority {
                host,
                score: score - least,
            })
            .collect();
        Ok(serde_json::to_vec(&scores).unwrap_or_default())
    }
}
