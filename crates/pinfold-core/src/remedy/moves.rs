//! Moves: the fewest running pods that have to be moved so that a rejected pod fits and all of them keep running.
//!
//! ```text
//! release the pods to move ──► admit the new pod and them again, in some order ──► all are admitted
//! ```
//!
//! Sets of one pod, then two, and so on; of one size those with the fewest CPUs first, then the fewest bytes, then by
//! name. Of every set all orders are tried, the new pod first. So the first plan that works is the smallest: no plan of
//! this form moves fewer pods. Every step was executed on a copy of the ledger, and the resulting assignment of each
//! pod is part of the plan.
//!
//! One shortcut is safe: if a pod is assigned the same again before the new pod is admitted, it did not have to be
//! moved, and the set without it was tried before.

use std::sync::Arc;

use serde::Serialize;

use super::trial::RemedyTrial;
use super::{Alteration, Effort, PodRef, Remedy, RemedyScope, RemedySize};
use crate::cpu::Combinations;
use crate::decision::{Assignment, Decision};
use crate::device::PreferredAllocation;
use crate::ledger::{Ledger, LedgerError};
use crate::pod::Pod;

/// The steps that make room for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MovePlan {
    /// The pods that are moved.
    pub moves: Vec<Move>,
    /// The steps, in order.
    pub steps: Vec<MoveStep>,
}

/// A pod that is moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The pod.
    pub pod: PodRef,
    /// Its current assignment.
    pub from: Assignment,
    /// Its new assignment.
    pub to: Assignment,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveStep {
    /// Release a pod.
    Release(PodRef),
    /// Admit a pod, the new one or a released one.
    Admit(PodRef),
}

/// The result of a search for the fewest moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Defragmentation {
    /// The decision about the pod without any move. If it is admitted there is no plan.
    pub decision: Decision,
    /// The plan with the fewest moves, and the assignment of the pod.
    pub plan: Option<Remedy>,
    /// No other plan with up to this number of moves exists.
    pub exhausted: usize,
    /// The number of admissions tried.
    pub tried: usize,
    /// Whether all plans up to the requested number of moves were tried, or a plan was found before.
    pub complete: bool,
}

impl Effort {
    /// The bounds for a search that only looks for moves.
    pub const PLAN: Effort = Effort {
        admissions: 50_000,
        evictions: 0,
        moves: 3,
    };
}

/// Searches the fewest pods that have to be moved so that `pod` fits. The ledger is unchanged.
///
/// # Errors
/// If the pod is admitted already, or if API validation would not accept it.
pub fn defragment(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    plugins: &mut dyn PreferredAllocation,
    effort: Effort,
) -> Result<Defragmentation, LedgerError> {
    let decision = ledger.clone().admit(pod, plugins)?.decision;
    let mut trial = RemedyTrial::new(plugins, effort.admissions.saturating_sub(1));
    let (plan, exhausted) = match decision.is_admitted() {
        true => (None, effort.moves),
        false => fewest(ledger, pod, effort.moves, &mut trial),
    };
    Ok(Defragmentation {
        decision,
        plan,
        exhausted,
        tried: trial.tried + 1,
        complete: trial.complete,
    })
}

/// The plan with the fewest moves, at most `most`, and the number of moves up to which all other plans were tried.
pub(super) fn fewest(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    most: usize,
    trial: &mut RemedyTrial<'_>,
) -> (Option<Remedy>, usize) {
    let movable = movable(ledger);
    for size in 1..=most.min(movable.len()) {
        let (sets, all) = sets(&movable, size, trial.left);
        for set in &sets {
            if trial.left == 0 {
                trial.complete = false;
                return (None, size - 1);
            }
            let moved = set.iter().map(|&at| &movable[at]).collect();
            if let Some(mut remedy) = Moving::new(ledger, pod, moved, trial).plan() {
                remedy.nearest = all;
                return (Some(remedy), size - 1);
            }
        }
        if !all || !trial.complete {
            trial.complete = false;
            return (None, size - 1);
        }
    }
    (None, most)
}

/// A pod that can be moved: it holds exclusive CPUs, memory or devices.
struct Movable {
    pod: Arc<Pod>,
    holds: Assignment,
    cpus: u64,
    bytes: u64,
}

/// The pods that can be moved, by name.
fn movable(ledger: &Ledger) -> Vec<Movable> {
    let mut all: Vec<Movable> = Vec::new();
    for other in ledger.admitted_pods() {
        let uid = &other.pod.uid;
        let Some(holds) = ledger.assignment(uid).filter(|holds| !holds.is_empty()) else {
            continue;
        };
        let blocks = ledger.state().memory().blocks_charged_to(uid);
        all.push(Movable {
            pod: other.pod.clone(),
            holds,
            cpus: ledger.exclusive_cpus(uid).len() as u64,
            bytes: blocks.fold(0, |sum, block| sum.saturating_add(block.size)),
        });
    }
    all.sort_by(|a, b| (&a.pod.name, &a.pod.uid).cmp(&(&b.pod.name, &b.pod.uid)));
    all
}

/// The sets of `size` pods, those that hold the least first, and whether these are all: at most `most` are returned.
fn sets(movable: &[Movable], size: usize, most: usize) -> (Vec<Vec<usize>>, bool) {
    let mut combinations = Combinations::new(movable.len(), size);
    let mut sets = Vec::new();
    let mut all = true;
    while let Some(chosen) = combinations.next() {
        if sets.len() == most {
            all = false;
            break;
        }
        sets.push(chosen.to_vec());
    }
    let sum = |set: &[usize], part: fn(&Movable) -> u64| {
        let parts = set.iter().map(|&at| part(&movable[at]));
        parts.fold(0, u64::saturating_add)
    };
    // The sets are sorted by name already, and the sort is stable.
    sets.sort_by_cached_key(|set| (sum(set, |one| one.cpus), sum(set, |one| one.bytes)));
    (sets, all)
}

/// The state of trying one set of pods.
struct Moving<'s, 'p> {
    /// A copy of the ledger, without these pods at first.
    ledger: Ledger,
    pod: &'s Arc<Pod>,
    moved: Vec<&'s Movable>,
    trial: &'s mut RemedyTrial<'p>,
    /// The pods admitted so far, in order, with their assignments. `None` is the new pod.
    admitted: Vec<(Option<usize>, Assignment)>,
}

impl<'s, 'p> Moving<'s, 'p> {
    fn new(
        ledger: &Ledger,
        pod: &'s Arc<Pod>,
        moved: Vec<&'s Movable>,
        trial: &'s mut RemedyTrial<'p>,
    ) -> Self {
        let mut ledger = ledger.clone();
        for movable in &moved {
            ledger
                .release(&movable.pod.uid)
                .expect("an admitted pod can be released");
        }
        Self {
            ledger,
            pod,
            moved,
            trial,
            admitted: Vec::new(),
        }
    }

    /// The first order in which all pods are admitted.
    fn plan(mut self) -> Option<Remedy> {
        self.admit_all().then(|| self.remedy())
    }

    fn admit_all(&mut self) -> bool {
        if self.admitted.len() == self.moved.len() + 1 {
            return true;
        }
        let waiting = std::iter::once(None).chain((0..self.moved.len()).map(Some));
        for index in waiting {
            let is_in = self.admitted.iter().any(|(admitted, _)| *admitted == index);
            if !is_in && self.admit_then_others(index) {
                return true;
            }
        }
        false
    }

    /// Admits one of the released pods, and then all others.
    fn admit_then_others(&mut self, index: Option<usize>) -> bool {
        let pod = index.map_or(self.pod, |at| &self.moved[at].pod);
        let Some((change, assignment)) = self.trial.admit_and_keep(&mut self.ledger, pod) else {
            return false;
        };
        let new_is_in = self.admitted.iter().any(|(admitted, _)| admitted.is_none());
        let is_back = index.is_some_and(|at| self.moved[at].holds == assignment);
        if new_is_in || !is_back {
            self.admitted.push((index, assignment));
            if self.admit_all() {
                return true;
            }
            self.admitted.pop();
        }
        self.ledger
            .undo(&change)
            .expect("a pod that was just admitted can be released");
        false
    }

    fn remedy(self) -> Remedy {
        let left = self
            .moved
            .iter()
            .map(|one| MoveStep::Release((&one.pod).into()));
        let pod_of = |index: Option<usize>| index.map_or(self.pod, |at| &self.moved[at].pod);
        let admitted = self
            .admitted
            .iter()
            .map(|(index, _)| MoveStep::Admit(pod_of(*index).into()));
        let moved = |(at, one): (usize, &&Movable)| Move {
            pod: (&one.pod).into(),
            from: one.holds.clone(),
            to: self.assignment_of(Some(at)),
        };
        let plan = MovePlan {
            moves: self.moved.iter().enumerate().map(moved).collect(),
            steps: left.chain(admitted).collect(),
        };
        Remedy {
            size: RemedySize {
                scope: RemedyScope::OtherPods,
                amount: plan.moves.len() as u64,
                loss: 0,
            },
            alteration: Alteration::Move(plan),
            assignment: self.assignment_of(None),
            nearest: true,
        }
    }

    fn assignment_of(&self, index: Option<usize>) -> Assignment {
        let found = self
            .admitted
            .iter()
            .find(|(admitted, _)| *admitted == index);
        found.map(|(_, got)| got.clone()).unwrap_or_default()
    }
}

impl From<&Arc<Pod>> for PodRef {
    fn from(pod: &Arc<Pod>) -> Self {
        Self {
            uid: pod.uid.clone(),
            name: pod.name.clone(),
        }
    }
}
