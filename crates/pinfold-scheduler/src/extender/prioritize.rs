//! Prioritize: the scores of nodes for a pod.

use pinfold_cluster::{CachedEvaluation, Evaluation};

use super::wire::{ExtenderArgs, HostPriority};
use super::{BadRequest, Extender};
use crate::cache::Cache;
use crate::cache::pod_info::PodInfo;
use crate::weights::Weights;

impl Cache {
    /// The scores of nodes, in the order of `names`. The cluster caches them: after a change of the weights its cache
    /// has to be cleared.
    pub fn prioritize(&mut self, info: &PodInfo, names: &[&str], weights: &Weights) -> Vec<i64> {
        if !info.needs_numa && !self.has_koordinator_nodes() {
            return vec![0; names.len()];
        }
        let evaluations = self
            .cluster
            .evaluate_nodes(&info.request, names.iter().copied());
        let score = |cached: Option<CachedEvaluation<'_>>| {
            let CachedEvaluation {
                node,
                evaluation,
                cached_score,
            } = cached?;
            let fit = match evaluation {
                Evaluation::Fits(fit) => Some(fit),
                Evaluation::FitsInTotal => None,
                Evaluation::Rejected(_) => return None,
            };
            let score = cached_score
                .get()
                .unwrap_or_else(|| weights.score(&info.request, node, fit));
            cached_score.set(Some(score));
            Some(score)
        };
        let scores = evaluations.into_iter().map(score);
        scores.map(Option::unwrap_or_default).collect()
    }
}

impl Extender {
    /// Handles a prioritize request. The response is JSON.
    ///
    /// # Errors
    /// If the request is malformed.
    pub fn prioritize(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let args: ExtenderArgs<'_> = serde_json::from_slice(body)
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let info = self.pod_info(args.pod)?;
        let names = (args.names()).map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let scores = {
            let mut cache = self.cache();
            cache.prioritize(&info, &names, &self.weights())
        };
        // kube-scheduler uses only differences and takes a missing node as 0, so the worst nodes are left out.
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
