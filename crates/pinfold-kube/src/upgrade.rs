//! What changes on a node when its kubelet moves to another minor version.
//!
//! ```text
//! configuration ─► lines that the new version does not start with; gates and defaults that flip   config, gates
//! state files   ─► those that the new version does not read, or does not start from               state
//! running pods  ─► rejected or placed otherwise, when the new kubelet starts and when they are
//!                  admitted anew                                                                  pods
//! Node, NodeResourceTopology and bound pods ─► as much of this as they show                       report
//! ```
//!
//! The versions differ by the methods of [`Fidelity`](pinfold_core::fidelity::Fidelity); this module only asks both and
//! compares. What a source does not show is named in [`NodeUpgrade::not_known`].

use pinfold_core::decision::Assignment;
use pinfold_core::fidelity::{KubeletVersion, UnknownKubelet};
use pinfold_core::ledger::Ledger;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeId;

use crate::diagnostic::Position;
use crate::state::KubeletManager;

mod config;
mod gates;
mod pods;
mod report;
mod state;

pub use config::ConfigFile;
pub use report::{of_cluster_node, running_in_order, version_of};
pub use state::StateFormats;

/// The versions of a kubelet before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// The version that runs.
    pub from: KubeletVersion,
    /// The version that will run.
    pub to: KubeletVersion,
}

/// A version as a user or a node names it, and the version whose rules predict it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedVersion {
    /// The text, such as `v1.33.5`.
    pub text: String,
    /// The version whose rules are used.
    pub rules: KubeletVersion,
    /// Whether it is newer than every known version.
    pub is_newer: bool,
}

impl std::str::FromStr for NamedVersion {
    type Err = UnknownKubelet;

    fn from_str(text: &str) -> Result<Self, UnknownKubelet> {
        let (rules, is_newer) = KubeletVersion::nearest(text)?;
        Ok(Self {
            text: text.to_owned(),
            rules,
            is_newer,
        })
    }
}

/// What changes on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUpgrade {
    /// The node; `None` for the only machine.
    pub node: Option<NodeName>,
    /// The version that runs, if it is known.
    pub from: Option<NamedVersion>,
    /// The differences.
    pub findings: Vec<UpgradeFinding>,
    /// What could not be examined, and why.
    pub not_known: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub enum UpgradeFinding {
    /// The kubelet does not start with a line of its configuration.
    Start(StartProblem),
    /// A state file must be deleted.
    StateFile(StateFileProblem),
    /// A pod is rejected or placed otherwise.
    Pod(PodChange),
    /// A gate or default flips.
    Flip(Flip),
}

/// A line of the configuration that the new version does not start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartProblem {
    /// The path of the field.
    pub field: String,
    /// Where the field is, if the file is known.
    pub place: Option<ConfigPlace>,
    /// What is wrong.
    pub problem: String,
    /// What to change.
    pub fix: String,
    /// The kubelet's message, if its words are known.
    pub message: Option<String>,
    /// Whether the version that runs does not start with it either.
    pub today: bool,
}

/// A place in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPlace {
    /// The file.
    pub file: String,
    /// The position.
    pub at: Option<Position>,
}

/// A state file with which the new version does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFileProblem {
    /// The manager of the file.
    pub manager: KubeletManager,
    /// What is wrong.
    pub problem: String,
    /// The kubelet's message, if its words are known.
    pub message: Option<String>,
    /// Whether the version that runs does not start with it either.
    pub today: bool,
}

/// When the kubelet decides about a running pod again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readmission {
    /// When the new kubelet starts with the node's state files: the pods keep running meanwhile.
    Restart,
    /// When the pods are created again in their order on the empty node, as after a drain.
    Anew,
}

/// What the new version decides otherwise about a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodChange {
    /// The pod's name; its uid if it has none.
    pub pod: String,
    /// When.
    pub when: Readmission,
    /// What.
    pub outcome: PodOutcome,
}

/// How a pod ends.
#[derive(Clone, Debug, PartialEq)]
pub enum PodOutcome {
    /// It is rejected.
    Rejected {
        /// The reason in its status.
        reason: String,
        /// The message in its status.
        message: String,
        /// Whether a restart of the version that runs rejects it too.
        today: bool,
    },
    /// It is placed otherwise.
    Placed {
        /// Under the version that runs.
        before: Placed,
        /// Under the new version.
        after: Placed,
    },
}

/// What a pod holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Its CPUs, memory and devices.
    pub assignment: Assignment,
    /// How many exclusive CPUs it has on each NUMA node.
    pub cpus_on_nodes: Vec<(NodeId, usize)>,
    /// Whether the ids of CPUs and devices stand for counts of a report.
    pub is_counted: bool,
}

/// A gate or default that flips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    /// Its name.
    pub name: &'static str,
    /// Whether it is a feature gate; else a field of the configuration.
    pub is_gate: bool,
    /// What it switches.
    pub about: &'static str,
    /// Whether it is on under the version that runs.
    pub before: bool,
    /// Whether it is on under the new version.
    pub after: bool,
}

impl UpgradeFinding {
    /// Whether a kubelet does not start or a pod is rejected: the node needs work before the upgrade.
    #[must_use]
    pub fn needs_work(&self) -> bool {
        match self {
            Self::Start(_) | Self::StateFile(_) => true,
            Self::Pod(change) => matches!(change.outcome, PodOutcome::Rejected { .. }),
            Self::Flip(_) => false,
        }
    }
}

impl NodeUpgrade {
    /// A node whose kubelet has this configuration, if it is known: what does not depend on machine, state and pods.
    #[must_use]
    pub fn of_config(
        node: Option<NodeName>,
        from: NamedVersion,
        to: KubeletVersion,
        config: Option<&ConfigFile>,
    ) -> Self {
        let change = VersionChange {
            from: from.rules,
            to,
        };
        let problems = config.map(|config| config.problems(change));
        let problems = problems.into_iter().flatten().map(UpgradeFinding::Start);
        let flips = config::flips(config, change).into_iter();
        let mut not_known = Vec::new();
        let others = config.map(ConfigFile::other_gates).unwrap_or_default();
        if !others.is_empty() {
            not_known.push(format!(
                "the gates {}, which the configuration sets: nothing is known about them",
                others.join(", ")
            ));
        }
        Self {
            node,
            from: Some(from),
            findings: problems.chain(flips.map(UpgradeFinding::Flip)).collect(),
            not_known,
        }
    }

    /// Adds what changes for the state files and pods of `ledger`, the node under the version that runs. `to` is the
    /// ledger of the same node without pods under the new version.
    pub fn compare(
        &mut self,
        ledger: &Ledger,
        to: &Ledger,
        formats: StateFormats,
        config: Option<&ConfigFile>,
    ) {
        let (files, saved) = state::problems(ledger, to, formats);
        let files = files.into_iter().map(UpgradeFinding::StateFile);
        let rejected = pods::rejected_by_gates(ledger, to.rules().fidelity().version(), config);
        let pods = pods::restarted(ledger, to, saved);
        let anew = pods::admitted_anew(ledger, to);
        let pods = pods::without_repetitions(rejected.into_iter().chain(pods).chain(anew));
        let found = files.chain(pods.into_iter().map(UpgradeFinding::Pod));
        self.findings.extend(found);
        self.sort();
    }

    /// Puts what needs work first, and flips last.
    fn sort(&mut self) {
        self.findings.sort_by_key(|finding| match finding {
            UpgradeFinding::Start(_) => 0,
            UpgradeFinding::StateFile(_) => 1,
            UpgradeFinding::Pod(_) => 2,
            UpgradeFinding::Flip(_) => 3,
        });
    }
}

#[cfg(test)]
mod tests;
