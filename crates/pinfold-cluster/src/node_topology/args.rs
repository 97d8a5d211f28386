//! [`TopologyMatchArgs`]: the configuration of the NodeResourceTopologyMatch plugin.

use super::score::{ResourceWeights, ScoringStrategy};

/// The arguments of the plugin (`NodeResourceTopologyMatchArgs`) that change its decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyMatchArgs {
    /// How nodes are scored (`scoringStrategy.type`).
    pub strategy: ScoringStrategy,
    /// The weights of resources (`scoringStrategy.resources`).
    pub weights: ResourceWeights,
    /// Whether the plugin caches the NodeResourceTopology objects (`cacheResyncPeriodSeconds` above 0). The cache
    /// deducts a reserved pod's requests from every NUMA zone of its node until the node reports again. Without the
    /// cache the plugin sees the objects as they were reported last.
    pub over_reserve: bool,
}

impl Default for TopologyMatchArgs {
    /// The plugin's defaults: `LeastAllocated` with weight 1 for CPU and memory, no cache.
    fn default() -> Self {
        Self {
            strategy: ScoringStrategy::default(),
            weights: [("cpu".into(), 1), ("memory".into(), 1)].into(),
            over_reserve: false,
        }
    }
}
