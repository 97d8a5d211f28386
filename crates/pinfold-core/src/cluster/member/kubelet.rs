//! A node whose kubelet decides.
//!
//! Its scheduler sees no NUMA nodes, so the score is ours: 100 if what the pod gets lies on one NUMA node or on none in
//! particular, and for each further node an equal part less, down to 0 for one more node than the machine has.

use super::{DialectBefore, Fit, Gauge, Given, PodAsk, Rejection, Verdict};
use crate::cluster::blame::Blame;
use crate::cluster::verdict::Decided;
use crate::cpu_set::CpuSet;
use crate::decision::{self, Assignment, Decision};
use crate::device::NoPreference;
use crate::ledger::{Change, Ledger};
use crate::name::PodUid;
use crate::node_set::NodeSet;
use crate::node_topology::replica::Gaps;
use crate::volcano::amounts::Taken;

pub(super) fn decide(ledger: &mut Ledger, gaps: Option<&Gaps>, ask: &PodAsk) -> Verdict {
    let admission = match ledger.admit(ask.pod(), &mut NoPreference) {
        Ok(admission) => admission,
        Err(error) => return Verdict::Rejected(Rejection::Ledger(error)),
    };
    undo(ledger, admission.change.as_ref());
    let decision = admission.decision;
    if let Some(gap) = gaps.and_then(|gaps| gaps.behind(ledger, ask.pod(), &decision)) {
        return Verdict::Rejected(Rejection::Uncertain(gap));
    }
    let blame = blame(&decision);
    let assignment = match decision.result {
        decision::AdmissionResult::Admitted(assignment) => assignment,
        decision::AdmissionResult::Rejected(rejection) => {
            return Verdict::Rejected(Rejection::Kubelet(rejection, blame));
        }
    };
    let (cpus, numa) = totals(ledger, &assignment);
    Verdict::Fits(Fit {
        gauge: Gauge::Score(score(numa.len(), ledger.rules().topology().num_nodes())),
        cpus,
        numa,
    })
}

pub(super) fn reserve(ledger: &mut Ledger, ask: &PodAsk) -> Result<Given, Rejection> {
    let (assignment, change) = admit(ledger, ask)?;
    let (cpus, numa) = totals(ledger, &assignment);
    Ok(Given {
        cpus,
        amounts: Taken::new(),
        numa,
        decided: Decided::Kubelet(assignment),
        before: DialectBefore::Kubelet(change),
    })
}

pub(super) fn release(ledger: &mut Ledger, pod: &PodUid) {
    // A pod that left by itself is as gone as one that leaves now.
    let _gone = ledger.release(pod);
}

fn admit(ledger: &mut Ledger, ask: &PodAsk) -> Result<(Assignment, Option<Change>), Rejection> {
    let admission = ledger
        .admit(ask.pod(), &mut NoPreference)
        .map_err(Rejection::Ledger)?;
    let blame = blame(&admission.decision);
    match admission.decision.result {
        decision::AdmissionResult::Admitted(assignment) => Ok((assignment, admission.change)),
        decision::AdmissionResult::Rejected(rejection) => {
            undo(ledger, admission.change.as_ref());
            Err(Rejection::Kubelet(rejection, blame))
        }
    }
}

/// What is to blame for a rejection.
fn blame(decision: &Decision) -> Option<Box<Blame>> {
    match decision.is_admitted() {
        true => None,
        false => Blame::of(decision).map(Box::new),
    }
}

fn undo(ledger: &mut Ledger, change: Option<&Change>) {
    if let Some(change) = change {
        ledger
            .undo(change)
            .expect("the change that was just made can be taken back");
    }
}

/// All exclusive CPUs of the pod, and the NUMA nodes of its CPUs and memory.
fn totals(ledger: &Ledger, assignment: &Assignment) -> (CpuSet, NodeSet) {
    let mut cpus = CpuSet::new();
    let mut numa = NodeSet::EMPTY;
    for container in &assignment.containers {
        if let Some(own) = &container.cpus {
            cpus |= own;
        }
        for block in container.memory.iter().flatten() {
            numa = numa | block.nodes;
        }
    }
    let nodes = ledger.rules().topology().nodes().iter();
    let touched = nodes.filter(|node| !node.cpus.is_disjoint(&cpus));
    let of_cpus: NodeSet = touched.map(|node| node.id).collect();
    (cpus, numa | of_cpus)
}

fn score(span: usize, nodes: usize) -> i64 {
    let further = i64::try_from(span.saturating_sub(1)).unwrap_or(i64::MAX);
    let nodes = i64::try_from(nodes.max(1)).unwrap_or(i64::MAX);
    (100 - further.saturating_mul(100) / nodes).max(0)
}
