//! [`CpuOptions`]: the options of the static policy, as the kubelet's configuration names them.
//!
//! Mirrors `NewStaticPolicyOptions`, `CheckPolicyOptionAvailable` and `ValidateStaticPolicyOptions`. Where several
//! options are wrong the kubelet reports any of them; here it is the first by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fidelity::KubeletVersion;
use crate::go_text::{self, GoTextError};
use crate::machine::cpus::CpuTopology;
use crate::policy::TopologyPolicy;

const FULL_PCPUS_ONLY: &str = "full-pcpus-only";
const DISTRIBUTE_ACROSS_NUMA: &str = "distribute-cpus-across-numa";
const ALIGN_BY_SOCKET: &str = "align-by-socket";
const DISTRIBUTE_ACROSS_CORES: &str = "distribute-cpus-across-cores";
const STRICT_RESERVATION: &str = "strict-cpu-reservation";
const PREFER_ALIGN_BY_CACHE: &str = "prefer-align-cpus-by-uncorecache";

/// The topology policy that is incompatible with `align-by-socket`.
const SINGLE_NUMA_NODE: &str = "single-numa-node";

/// The options of the static policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct CpuOptions {
    /// Only requests that fill whole physical cores are admitted.
    pub full_pcpus_only: bool,
    /// A request that needs several NUMA nodes is spread evenly over them.
    #[serde(rename = "distribute-cpus-across-numa")]
    pub distribute_across_numa: bool,
    /// CPUs are aligned to sockets instead of NUMA nodes.
    pub align_by_socket: bool,
    /// CPUs are taken from different physical cores where possible.
    #[serde(rename = "distribute-cpus-across-cores")]
    pub distribute_across_cores: bool,
    /// Reserved CPUs are not part of the shared pool either.
    #[serde(rename = "strict-cpu-reservation")]
    pub strict_reservation: bool,
    /// CPUs are taken from one L3 cache where possible.
    #[serde(rename = "prefer-align-cpus-by-uncorecache")]
    pub prefer_align_by_cache: bool,
}

/// The feature gates `CPUManagerPolicyAlphaOptions` (off by default) and `CPUManagerPolicyBetaOptions` (on by default).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionGates {
    /// Whether alpha options are enabled.
    pub alpha: bool,
    /// Whether beta options are enabled.
    pub beta: bool,
    /// The kubelet's version, which decides the stage of every option.
    pub version: KubeletVersion,
}

/// The minor versions in which an option became alpha, beta and stable; `NEVER` if it did not.
struct Stages {
    name: &'static str,
    alpha: u8,
    beta: u8,
    stable: u8,
}

const NEVER: u8 = u8::MAX;

#[rustfmt::skip]
const STAGES: [Stages; 6] = [
    Stages { name: FULL_PCPUS_ONLY, alpha: 0, beta: 0, stable: 33 },
    Stages { name: DISTRIBUTE_ACROSS_NUMA, alpha: 0, beta: 33, stable: NEVER },
    Stages { name: ALIGN_BY_SOCKET, alpha: 0, beta: NEVER, stable: NEVER },
    Stages { name: DISTRIBUTE_ACROSS_CORES, alpha: 31, beta: NEVER, stable: NEVER },
    Stages { name: STRICT_RESERVATION, alpha: 32, beta: 33, stable: 35 },
    Stages { name: PREFER_ALIGN_BY_CACHE, alpha: 32, beta: 34, stable: 36 },
];

impl OptionGates {
    /// Mirrors `CheckPolicyOptionAvailable`.
    fn check(self, name: &str) -> Result<(), CpuOptionError> {
        let owned = || name.to_owned();
        let since = |minor| self.version >= KubeletVersion::minor(minor);
        match STAGES.iter().find(|stages| stages.name == name) {
            Some(stages) if since(stages.stable) => Ok(()),
            Some(stages) if since(stages.beta) && self.beta => Ok(()),
            Some(stages) if since(stages.beta) => Err(CpuOptionError::BetaOff { name: owned() }),
            Some(stages) if since(stages.alpha) && self.alpha => Ok(()),
            Some(stages) if since(stages.alpha) => Err(CpuOptionError::AlphaOff { name: owned() }),
            _ => Err(CpuOptionError::Unknown { name: owned() }),
        }
    }
}

/// Invalid options. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuOptionError {
    /// Unknown option.
    #[error("unknown CPU Manager Policy option: {}", go_text::quoted(name))]
    Unknown {
        /// Its name.
        name: String,
    },
    /// An alpha option while the gate is off.
    #[error(
        "CPU Manager Policy Alpha-level Options not enabled, but option {} provided",
        go_text::quoted(name)
    )]
    AlphaOff {
        /// Its name.
        name: String,
    },
    /// A beta option while the gate is off.
    #[error(
        "CPU Manager Policy Beta-level Options not enabled, but option {} provided",
        go_text::quoted(name)
    )]
    BetaOff {
        /// Its name.
        name: String,
    },
    /// A value that is not a boolean.
    #[error("bad value for option {}: {source}", go_text::quoted(name))]
    BadValue {
        /// The option.
        name: String,
        /// The parse error.
        source: GoTextError,
    },
    /// Two options that contradict each other.
    #[error("static policy options {0} and {1} can not be used at the same time")]
    Contradiction(&'static str, &'static str),
    /// `align-by-socket` with the topology policy `single-numa-node`.
    #[error(
        "Topolgy manager {SINGLE_NUMA_NODE} policy is incompatible with CPUManager {ALIGN_BY_SOCKET} policy option"
    )]
    AlignBySocketOnOneNode,
    /// `align-by-socket` on a machine with more sockets than NUMA nodes.
    #[error(
        "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    )]
    MoreSocketsThanNodes,
}

impl CpuOptions {
    /// Parses the options of a kubelet configuration.
    ///
    /// # Errors
    /// If an option is unknown, not enabled, not a boolean, or contradicts another one.
    pub fn parse(
        options: &BTreeMap<String, String>,
        gates: OptionGates,
    ) -> Result<Self, CpuOptionError> {
        let mut parsed = Self::default();
        for (name, value) in options {
            let owned = || name.clone();
            gates.check(name)?;
            let field = match name.as_str() {
                FULL_PCPUS_ONLY => &mut parsed.full_pcpus_only,
                STRICT_RESERVATION => &mut parsed.strict_reservation,
                PREFER_ALIGN_BY_CACHE => &mut parsed.prefer_align_by_cache,
                DISTRIBUTE_ACROSS_NUMA => &mut parsed.distribute_across_numa,
                ALIGN_BY_SOCKET => &mut parsed.align_by_socket,
                DISTRIBUTE_ACROSS_CORES => &mut parsed.distribute_across_cores,
                _ => return Err(CpuOptionError::Unknown { name: owned() }),
            };
            *field = go_text::boolean(value).map_err(|source| CpuOptionError::BadValue {
                name: owned(),
                source,
            })?;
        }
        parsed.check_contradictions()?;
        Ok(parsed)
    }

    fn check_contradictions(&self) -> Result<(), CpuOptionError> {
        let cores = (self.distribute_across_cores, DISTRIBUTE_ACROSS_CORES);
        let numa = (self.distribute_across_numa, DISTRIBUTE_ACROSS_NUMA);
        let cache = (self.prefer_align_by_cache, PREFER_ALIGN_BY_CACHE);
        let full = (self.full_pcpus_only, FULL_PCPUS_ONLY);
        let pairs = [(full, cores), (numa, cores), (cache, cores), (cache, numa)];
        match pairs.into_iter().find(|(one, other)| one.0 && other.0) {
            Some((one, other)) => Err(CpuOptionError::Contradiction(one.1, other.1)),
            None => Ok(()),
        }
    }

    /// Checks the options against the machine and the topology policy.
    ///
    /// # Errors
    /// If `align-by-socket` is incompatible with one of them.
    pub(crate) fn validate(
        &self,
        topology: &CpuTopology,
        topology_policy: TopologyPolicy,
    ) -> Result<(), CpuOptionError> {
        if self.align_by_socket && topology_policy == TopologyPolicy::SingleNumaNode {
            return Err(CpuOptionError::AlignBySocketOnOneNode);
        }
        if self.align_by_socket && topology.num_sockets() > topology.num_nodes() {
            return Err(CpuOptionError::MoreSocketsThanNodes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rows: &[(&str, &str)], gates: OptionGates) -> Result<CpuOptions, String> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let options = rows.iter().map(owned).collect();
        CpuOptions::parse(&options, gates).map_err(|error| error.to_string())
    }

    const ALL: OptionGates = OptionGates {
        alpha: true,
        beta: true,
        version: KubeletVersion::DEFAULT,
    };
    const BETA: OptionGates = OptionGates {
        alpha: false,
        ..ALL
    };

    #[test]
    fn an_option_is_unknown_then_alpha_then_beta_then_stable() {
        let of = |minor, beta| OptionGates {
            alpha: false,
            beta,
            version: KubeletVersion::minor(minor),
        };
        let strict = [(STRICT_RESERVATION, "true")];
        let unknown = "unknown CPU Manager Policy option: \"strict-cpu-reservation\"";
        let off = |stage| {
            format!(
                "CPU Manager Policy {stage}-level Options not enabled, \
                 but option \"strict-cpu-reservation\" provided"
            )
        };
        assert_eq!(parse(&strict, of(31, true)), Err(unknown.to_owned()));
        assert_eq!(parse(&strict, of(32, true)), Err(off("Alpha")));
        assert_eq!(parse(&strict, of(33, false)), Err(off("Beta")));
        assert!(parse(&strict, of(34, true)).is_ok());
        assert!(parse(&strict, of(35, false)).is_ok());
    }

    #[test]
    fn an_option_is_parsed_as_go_parses_a_boolean() {
        for (value, expected) in [("T", true), ("True", true), ("1", true), ("f", false)] {
            let options = parse(&[(FULL_PCPUS_ONLY, value)], ALL).unwrap();
            assert_eq!(options.full_pcpus_only, expected, "{value}");
        }
        for value in ["", "yes", "tRue", "01", " true"] {
            let quoted = go_text::quoted(value);
            let expected = format!(
                "bad value for option \"full-pcpus-only\": \
                 strconv.ParseBool: parsing {quoted}: invalid syntax"
            );
            assert_eq!(parse(&[(FULL_PCPUS_ONLY, value)], ALL), Err(expected));
        }
    }

    #[test]
    fn alpha_options_need_their_gate() {
        for name in [ALIGN_BY_SOCKET, DISTRIBUTE_ACROSS_CORES] {
            assert!(parse(&[(name, "true")], ALL).is_ok());
            let rejected = format!(
                "CPU Manager Policy Alpha-level Options not enabled, but option \"{name}\" provided"
            );
            assert_eq!(parse(&[(name, "no")], BETA), Err(rejected));
        }
    }

    #[test]
    fn only_options_that_are_on_contradict_each_other() {
        let both = [(DISTRIBUTE_ACROSS_CORES, "true"), (FULL_PCPUS_ONLY, "true")];
        let rejected = "static policy options full-pcpus-only and distribute-cpus-across-cores \
                       can not be used at the same time";
        assert_eq!(parse(&both, ALL), Err(rejected.to_owned()));
        let one = [
            (DISTRIBUTE_ACROSS_CORES, "true"),
            (FULL_PCPUS_ONLY, "false"),
        ];
        assert!(parse(&one, ALL).is_ok());
    }
}
