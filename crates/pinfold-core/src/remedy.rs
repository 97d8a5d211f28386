//! Remedies: the nearest changes with which a rejected pod would be let in.
//!
//! ```text
//! rejected pod ─┬─ asks for less of one thing in one container ── or fills whole cores
//!              ├─ neighbours change places: one, then two; or leave: one, then two, then three
//!              └─ the node is run otherwise: weaker policy, other scope, one option off
//!                        each tried for real on a copy of the ledger ─► ranked by size
//! ```
//!
//! Every remedy was verified by admitting the changed pod, or the pod under changed rules, on a copy; what it would
//! get is part of the answer. Admission is not monotone (less memory can need fewer nodes than another resource
//! prefers, an odd number of CPUs never fills cores), so amounts are tried one by one, the nearest first, and
//! not halved; [`Remedy::nearest`] tells where the search was cut short instead.
//!
//! The number of admissions is bounded by [`Effort`], so the time is too. Nothing here depends on whether the
//! kubelet's defects are repeated: what is tried is the ledger itself, whatever its fidelity, and its explanations have
//! the same form in both.

use std::sync::Arc;

use serde::Serialize;

use crate::decision::{Assignment, Decision, ResourceManager};
use crate::device::PreferredAllocation;
use crate::ledger::{Ledger, LedgerError};
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::pod::Pod;
use crate::policy::TopologyPolicy;
use crate::settings::TopologyScope;

mod amounts;
mod critical;
mod evictions;
mod moves;
mod request_change;
mod settings;
mod trial;

use trial::Trial;

pub use moves::{Defragmentation, Move, MovePlan, MoveStep, defragment};

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How many admissions may be tried in all. Changes of the pod get at most half of them.
    pub admissions: usize,
    /// How many neighbours may have to leave together.
    pub evictions: usize,
    /// How many neighbours may have to change places.
    pub moves: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            admissions: 5_000,
            evictions: 3,
            moves: 2,
        }
    }
}

/// What was found for one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedies {
    /// The decision that needs a remedy. If it is an admission there is nothing else here.
    pub decision: Decision,
    /// Changes with which the pod would be let in, the smallest first.
    pub fitting: Vec<Remedy>,
    /// What holds for the machine without any other pod.
    pub on_empty_node: OnEmptyNode,
    /// How many admissions were tried.
    pub tried: usize,
    /// Whether everything was tried that could have been; otherwise more remedies may exist.
    pub complete: bool,
}

/// What would become of the pod if it were the only one on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnEmptyNode {
    /// It would be let in.
    Fits,
    /// It never fits here as it is.
    Never {
        /// The most of each thing that would fit, the smallest change first.
        largest: Vec<Remedy>,
    },
}

/// A change, and what the pod would get then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What changes.
    pub alteration: Alteration,
    /// How large the change is.
    pub size: RemedySize,
    /// What the pod would get.
    pub assignment: Assignment,
    /// Whether no smaller change of this kind would do. `false` if not all of them could be tried.
    pub nearest: bool,
}

/// What has to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alteration {
    /// The pod asks for something else: one amount, or the CPUs of all containers by one factor.
    Request(Vec<RequestChange>),
    /// These pods change places, and all of them run on.
    Move(MovePlan),
    /// These pods leave.
    Evict(Vec<PodRef>),
    /// The node is run under another topology policy.
    Policy {
        /// The policy.
        from: TopologyPolicy,
        /// A weaker one.
        to: TopologyPolicy,
    },
    /// Something else is aligned as one.
    Scope {
        /// The scope.
        from: TopologyScope,
        /// The other one.
        to: TopologyScope,
    },
    /// One option is switched off.
    OptionOff {
        /// Whose option.
        of: OptionOwner,
        /// Its name in a kubelet configuration.
        name: String,
    },
}

/// Another amount of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestChange {
    /// The container; `None` for the pod as a whole (pod-level resources).
    pub container: Option<ContainerName>,
    /// The resource.
    pub resource: ResourceName,
    /// Who hands it out: amounts are CPUs, bytes or devices.
    pub manager: ResourceManager,
    /// What is requested for.
    pub from: u64,
    /// What would fit.
    pub to: u64,
}

/// A pod on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRef {
    /// Its id.
    pub uid: PodUid,
    /// What people call it; may be empty.
    pub name: String,
}

/// Whose option it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionOwner {
    /// The static CPU policy.
    CpuManager,
    /// The topology manager.
    TopologyManager,
}

/// How large a change is: first whom it touches, then how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RemedySize {
    /// Whom it touches.
    pub scope: RemedyScope,
    /// How much, inside the same reach: thousandths of what was requested, pods, or steps of policy.
    pub amount: u64,
    /// What breaks ties: how much is lost with it, in CPUs, for pods that leave.
    pub loss: u64,
}

/// Whom a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyScope {
    /// The pod itself.
    Pod,
    /// Other pods.
    OtherPods,
    /// Everything that will ever run on the node.
    Node,
}

/// Looks for the nearest changes with which `pod` would be let in. The ledger is not changed.
///
/// `plugins` is requested in every trial, so it should answer the same question in the same way.
///
/// # Errors
/// If the pod is here already or is no pod the kubelet would see.
pub fn find(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    plugins: &mut dyn PreferredAllocation,
    effort: Effort,
) -> Result<Remedies, LedgerError> {
    let mut copy = ledger.clone();
    let decision = copy.admit(pod, plugins)?.decision;
    let mut found = Remedies {
        fitting: Vec::new(),
        on_empty_node: OnEmptyNode::Fits,
        tried: 1,
        complete: true,
        decision,
    };
    let Some(rejection) = found.decision.rejection() else {
        return Ok(found);
    };
    let mut trial = Trial::new(plugins, effort.admissions.saturating_sub(1));

    let mut fitting = settings::remedies(ledger, pod, &mut trial);
    let share = trial.left / 2;
    trial.with_share(share, |trial| {
        fitting.extend(amounts::remedies(ledger, pod, rejection.reason, trial));
    });
    let mut empty = ledger.without_pods();
    if trial.admit(&mut empty, pod).is_some() {
        let share = trial.left / 2;
        trial.with_share(share, |trial| {
            fitting.extend(moves::fewest(ledger, pod, effort.moves, trial).0);
        });
        fitting.extend(evictions::remedies(
            ledger,
            pod,
            effort.evictions,
            &mut trial,
        ));
    } else {
        let mut largest = amounts::remedies(&empty, pod, rejection.reason, &mut trial);
        largest.sort_by_key(|remedy| remedy.size);
        found.on_empty_node = OnEmptyNode::Never { largest };
    }
    fitting.sort_by_key(|remedy| remedy.size);
    found.fitting = fitting;
    found.tried += trial.tried;
    found.complete = trial.complete;
    Ok(found)
}

#[cfg(test)]
mod tests;
