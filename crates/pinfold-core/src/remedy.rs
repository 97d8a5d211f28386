//! Remedies: the smallest changes with which a rejected pod would be admitted.
//!
//! ```text
//! rejected pod ─┬─ request less of one resource in one container ── or fill whole cores
//!              ├─ move other pods: one, then two; or evict them: one, then two, then three
//!              └─ change the node's settings: weaker policy, other scope, one option off
//!                        each verified by an admission on a copy of the ledger ─► sorted by size
//! ```
//!
//! Every remedy was verified by admitting the changed pod, or the pod under changed rules, on a copy of the ledger; the
//! resulting assignment is part of the remedy. Admission is not monotone (less memory can need fewer nodes than another
//! resource prefers, an odd number of CPUs never fills cores), so amounts are tried one by one, the nearest first,
//! instead of by bisection; [`Remedy::nearest`] is false where the search was cut short.
//!
//! The number of admissions is bounded by [`Effort`], and therefore the time. Nothing here depends on the fidelity: the
//! ledger itself is tried, and its explanations have the same form in both fidelities.

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

use trial::RemedyTrial;

pub use moves::{Defragmentation, Move, MovePlan, MoveStep, defragment};

/// Bounds of the search for remedies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The maximum number of admissions. Changes of the pod use at most half of them.
    pub admissions: usize,
    /// The maximum number of pods to evict together.
    pub evictions: usize,
    /// The maximum number of pods to move.
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

/// The remedies for one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedies {
    /// The decision about the pod. If it is admitted there are no remedies.
    pub decision: Decision,
    /// Changes with which the pod would be admitted, the smallest first.
    pub fitting: Vec<Remedy>,
    /// Whether the pod fits the node without any other pod.
    pub on_empty_node: OnEmptyNode,
    /// The number of admissions tried.
    pub tried: usize,
    /// Whether all candidates were tried; otherwise more remedies may exist.
    pub complete: bool,
}

/// Whether the pod would be admitted if it were the only one on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnEmptyNode {
    /// It would be admitted.
    Fits,
    /// It does not fit even then.
    Never {
        /// The largest amount of each resource that would fit, the smallest change first.
        largest: Vec<Remedy>,
    },
}

/// A change, and the assignment of the pod after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The change.
    pub alteration: Alteration,
    /// The size of the change.
    pub size: RemedySize,
    /// The assignment of the pod.
    pub assignment: Assignment,
    /// Whether no smaller change of this kind suffices. `false` if not all of them could be tried.
    pub nearest: bool,
}

/// A change of the pod, of other pods, or of the node's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alteration {
    /// The pod requests other amounts: of one resource, or the CPUs of all containers by one factor.
    Request(Vec<RequestChange>),
    /// These pods are moved, and all of them keep running.
    Move(MovePlan),
    /// These pods are evicted.
    Evict(Vec<PodRef>),
    /// The node uses another topology policy.
    Policy {
        /// The current policy.
        from: TopologyPolicy,
        /// The weaker policy.
        to: TopologyPolicy,
    },
    /// The node uses another topology scope.
    Scope {
        /// The current scope.
        from: TopologyScope,
        /// The other scope.
        to: TopologyScope,
    },
    /// One option is switched off.
    OptionOff {
        /// The manager of the option.
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
    /// The manager that allocates it: amounts are CPUs, bytes or devices.
    pub manager: ResourceManager,
    /// The requested amount.
    pub from: u64,
    /// The amount that would fit.
    pub to: u64,
}

/// The UID and name of an admitted pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRef {
    /// Its UID.
    pub uid: PodUid,
    /// Its display name; may be empty.
    pub name: String,
}

/// The manager that has an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionOwner {
    /// The static CPU policy.
    CpuManager,
    /// The topology manager.
    TopologyManager,
}

/// The size of a change: first by what it affects, then by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RemedySize {
    /// What it affects.
    pub scope: RemedyScope,
    /// The amount inside the same scope: thousandths of the request, pods, or steps of policy.
    pub amount: u64,
    /// Breaks ties: for evicted pods the number of their CPUs.
    pub loss: u64,
}

/// What a change affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyScope {
    /// The pod itself.
    Pod,
    /// Other pods.
    OtherPods,
    /// All pods that will run on the node.
    Node,
}

/// Searches the smallest changes with which `pod` would be admitted. The ledger is unchanged.
///
/// `plugins` is called in every trial, so it should return the same answer for the same arguments.
///
/// # Errors
/// If the pod is admitted already, or if API validation would not accept it.
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
    let mut trial = RemedyTrial::new(plugins, effort.admissions.saturating_sub(1));

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
