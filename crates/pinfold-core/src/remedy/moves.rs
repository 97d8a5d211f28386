//! Moves: the fewest running pods that have to change places so that a rejected pod fits and nobody is lost.
//!
//! ```text
//! the pods to move leave ──► the new pod and they come in again, in some order ──► all of them are let in
//! ```
//!
//! Sets of one pod, then two, and so on; of one size those first that hold the fewest CPUs, then the fewest
//! bytes, then by name. Of every set all orders are tried, the new pod first. So the first plan that works is the
//! smallest: no plan of this form moves fewer pods. Every step was carried out on a copy of the ledger, and what each
//! pod got there is part of the plan.
//!
//! One shortcut loses nothing: if a pod comes back to what it held before the new pod is in, it did not have to
//! leave, and the set without it was tried before.

use std::sync::Arc;

use serde::Serialize;

use super::trial::Trial;
use super::{Alteration, Effort, PodRef, Remedy, RemedyScope, RemedySize};
use crate::cpu::Combinations;
use crate::decision::{Assignment, Decision};
use crate::device::PreferredAllocation;
use crate::ledger::{Ledger, LedgerError};
use crate::pod::Pod;

/// What makes room for a pod, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MovePlan {
    /// Who changes places.
    pub moves: Vec<Move>,
    /// What to do, in order.
    pub steps: Vec<MoveStep>,
}

/// A pod that changes places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The pod.
    pub pod: PodRef,
    /// What it holds.
    pub from: Assignment,
    /// What it will hold.
    pub to: Assignment,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveStep {
    /// A pod leaves.
    Release(PodRef),
    /// A pod comes in, the new one or one that left.
    Admit(PodRef),
}

/// The answer to "who has to move?".
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Defragmentation {
    /// The decision about the pod as things are. If it is an admission there is nothing else here.
    pub decision: Decision,
    /// The plan with the fewest moves, and what the pod would get.
    pub plan: Option<Remedy>,
    /// No plan with up to so many moves exists, other than the one that was found.
    pub exhausted: usize,
    /// How many admissions were tried.
    pub tried: usize,
    /// Whether everything was tried up to the number of moves that was requested for, or a plan was found before.
    pub complete: bool,
}

impl Effort {
    /// How hard to look for a plan where nothing else is looked for.
    pub const PLAN: Effort = Effort {
        admissions: 50_000,
        evictions: 0,
        moves: 3,
    };
}

/// Looks for the fewest pods that have to move so that `pod` fits. The ledger is not changed.
///
/// # Errors
/// If the pod is here already or is no pod the kubelet would see.
pub fn defragment(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    plugins: &mut dyn PreferredAllocation,
    effort: Effort,
) -> Result<Defragmentation, LedgerError> {
    let decision = ledger.clone().admit(pod, plugins)?.decision;
    let mut trial = Trial::new(plugins, effort.admissions.saturating_sub(1));
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

/// The plan with the fewest moves, of at most `most`, and the number of moves up to which every other plan was tried.
pub(super) fn fewest(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    most: usize,
    trial: &mut Trial<'_>,
) -> (Option<Remedy>, usize) {
    let movable = movable(ledger);
    for size in 1..=most.min(movable.len()) {
        let (sets, all) = sets(&movable, size, trial.left);
        for set in &sets {
            if trial.left == 0 {
                trial.complete = false;
                return (None, size - 1);
            }
            let leaving = set.iter().map(|&at| &movable[at]).collect();
            if let Some(mut remedy) = Moving::new(ledger, pod, leaving, trial).plan() {
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

/// A pod that holds something and could hold something else.
struct Movable {
    pod: Arc<Pod>,
    holds: Assignment,
    cpus: u64,
    bytes: u64,
}

/// The pods that hold something, by name.
fn movable(ledger: &Ledger) -> Vec<Movable> {
    let mut all: Vec<Movable> = Vec::new();
    for resident in ledger.admitted_pods() {
        let uid = &resident.pod.uid;
        let Some(holds) = ledger.assignment(uid).filter(|holds| !holds.is_empty()) else {
            continue;
        };
        let blocks = ledger.state().memory().blocks_charged_to(uid);
        all.push(Movable {
            pod: resident.pod.clone(),
            holds,
            cpus: ledger.exclusive_cpus(uid).len() as u64,
            bytes: blocks.fold(0, |sum, block| sum.saturating_add(block.size)),
        });
    }
    all.sort_by(|a, b| (&a.pod.name, &a.pod.uid).cmp(&(&b.pod.name, &b.pod.uid)));
    all
}

/// The sets of `size` pods, those that hold least first, and whether these are all: no more than `most` are looked at.
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
    // The sets are in the order of their names already, and stay so where they hold as much.
    sets.sort_by_cached_key(|set| (sum(set, |one| one.cpus), sum(set, |one| one.bytes)));
    (sets, all)
}

/// One set of pods on their way.
struct Moving<'s, 'p> {
    /// A copy, from which they have left.
    ledger: Ledger,
    pod: &'s Arc<Pod>,
    leaving: Vec<&'s Movable>,
    trial: &'s mut Trial<'p>,
    /// Who came in so far, in order, and what it got. `None` is the new pod.
    came: Vec<(Option<usize>, Assignment)>,
}

impl<'s, 'p> Moving<'s, 'p> {
    fn new(
        ledger: &Ledger,
        pod: &'s Arc<Pod>,
        leaving: Vec<&'s Movable>,
        trial: &'s mut Trial<'p>,
    ) -> Self {
        let mut ledger = ledger.clone();
        for movable in &leaving {
            ledger
                .release(&movable.pod.uid)
                .expect("a resident can leave");
        }
        Self {
            ledger,
            pod,
            leaving,
            trial,
            came: Vec::new(),
        }
    }

    /// The first order in which everybody comes in.
    fn plan(mut self) -> Option<Remedy> {
        self.all_come_in().then(|| self.remedy())
    }

    fn all_come_in(&mut self) -> bool {
        if self.came.len() == self.leaving.len() + 1 {
            return true;
        }
        let waiting = std::iter::once(None).chain((0..self.leaving.len()).map(Some));
        for who in waiting {
            let is_in = self.came.iter().any(|(came, _)| *came == who);
            if !is_in && self.comes_in(who) {
                return true;
            }
        }
        false
    }

    /// Lets one of those outside in, and then all others.
    fn comes_in(&mut self, who: Option<usize>) -> bool {
        let pod = who.map_or(self.pod, |at| &self.leaving[at].pod);
        let Some((change, assignment)) = self.trial.keep(&mut self.ledger, pod) else {
            return false;
        };
        let new_is_in = self.came.iter().any(|(came, _)| came.is_none());
        let is_back = who.is_some_and(|at| self.leaving[at].holds == assignment);
        if new_is_in || !is_back {
            self.came.push((who, assignment));
            if self.all_come_in() {
                return true;
            }
            self.came.pop();
        }
        self.ledger
            .undo(&change)
            .expect("the pod that just came in can leave");
        false
    }

    fn remedy(self) -> Remedy {
        let left = self
            .leaving
            .iter()
            .map(|one| MoveStep::Release((&one.pod).into()));
        let pod_of = |who: Option<usize>| who.map_or(self.pod, |at| &self.leaving[at].pod);
        let came = self
            .came
            .iter()
            .map(|(who, _)| MoveStep::Admit(pod_of(*who).into()));
        let moved = |(at, one): (usize, &&Movable)| Move {
            pod: (&one.pod).into(),
            from: one.holds.clone(),
            to: self.got(Some(at)),
        };
        let plan = MovePlan {
            moves: self.leaving.iter().enumerate().map(moved).collect(),
            steps: left.chain(came).collect(),
        };
        Remedy {
            size: RemedySize {
                scope: RemedyScope::OtherPods,
                amount: plan.moves.len() as u64,
                loss: 0,
            },
            alteration: Alteration::Move(plan),
            assignment: self.got(None),
            nearest: true,
        }
    }

    fn got(&self, who: Option<usize>) -> Assignment {
        let found = self.came.iter().find(|(came, _)| *came == who);
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
