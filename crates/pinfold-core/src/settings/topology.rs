//! The topology manager's scope and options. Mirrors `NewPolicyOptions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fidelity::Fidelity;
use crate::go_text::{self, GoTextError};

/// The topology manager's scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyScope {
    /// Each container is aligned by itself.
    #[default]
    Container,
    /// All containers of a pod are aligned together.
    Pod,
}

/// A scope name that the kubelet does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope: \"{name}\"")]
pub struct UnknownScope {
    /// The unknown name.
    pub name: String,
}

configured_names!(TopologyScope, UnknownScope {
    Container = "container",
    Pod = "pod",
});

/// The options of the topology manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyOptions {
    /// `prefer-closest-numa-nodes`: among equally wide hints the one whose nodes are closest to each other wins.
    pub prefer_closest: bool,
    /// The kubelet does not start on machines with more NUMA nodes than this.
    pub max_numa_nodes: usize,
}

impl Default for TopologyOptions {
    fn default() -> Self {
        Self {
            prefer_closest: false,
            max_numa_nodes: DEFAULT_MAX_NUMA_NODES,
        }
    }
}

/// The kubelet's default: with more nodes its own merge would take too long.
const DEFAULT_MAX_NUMA_NODES: usize = 8;

const PREFER_CLOSEST: &str = "prefer-closest-numa-nodes";
const MAX_NUMA_NODES: &str = "max-allowable-numa-nodes";

/// Invalid options of the topology manager. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyOptionError {
    /// Unknown option.
    #[error("unknown Topology Manager Policy option: {}", go_text::quoted(.0))]
    Unknown(String),
    /// A value that is not a boolean.
    #[error("bad value for option \"{option}\": {source}")]
    NotAFlag {
        /// The option.
        option: &'static str,
        /// The parse error.
        source: GoTextError,
    },
    /// A value that is not a number.
    #[error("unable to convert policy option to integer \"{option}\": {source}")]
    NotANumber {
        /// The option.
        option: &'static str,
        /// The parse error.
        source: GoTextError,
    },
    /// A limit below the default.
    #[error(
        "the minimum value of \"{MAX_NUMA_NODES}\" should not be less than {DEFAULT_MAX_NUMA_NODES}"
    )]
    TooFewNodes,
}

impl TopologyOptions {
    /// Parses the options of a kubelet configuration.
    ///
    /// # Errors
    /// For unknown options and values out of range, with the kubelet's message; the first by name if there are several.
    pub(crate) fn parse(
        options: &BTreeMap<String, String>,
        fidelity: Fidelity,
    ) -> Result<Self, TopologyOptionError> {
        let mut parsed = Self::default();
        for (name, value) in options {
            match name.as_str() {
                PREFER_CLOSEST => {
                    parsed.prefer_closest = go_text::boolean(value).map_err(|source| {
                        TopologyOptionError::NotAFlag {
                            option: PREFER_CLOSEST,
                            source,
                        }
                    })?;
                }
                MAX_NUMA_NODES if fidelity.knows_max_numa_nodes() => {
                    let nodes = go_text::integer(value).map_err(|source| {
                        TopologyOptionError::NotANumber {
                            option: MAX_NUMA_NODES,
                            source,
                        }
                    })?;
                    parsed.max_numa_nodes = usize::try_from(nodes)
                        .ok()
                        .filter(|&nodes| nodes >= DEFAULT_MAX_NUMA_NODES)
                        .ok_or(TopologyOptionError::TooFewNodes)?;
                }
                _ => return Err(TopologyOptionError::Unknown(name.clone())),
            }
        }
        Ok(parsed)
    }
}
