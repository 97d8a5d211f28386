//! A node whose kubelet decides.
//!
//! kube-scheduler does not see NUMA nodes, so the score is Pinfold's: 100 if the pod's CPUs and memory lie on one NUMA
//! node or are not aligned, and for each further NUMA node an equal part less, down to 0 for one more than the machine
//! has.

use super::{Evaluation, Fit, FitScore, NodeRejection, NodeReservation, PodRequest};
use crate::cluster::place::PlacementDetail;
use crate::cluster::rejection_summary::RejectionSummary;
use crate::node_topology::replica::Gaps;
use crate::volcano::numa_amounts::TakenAmounts;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{self, Assignment, Decision};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Change, Ledger};
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;

/// Evaluates a pod by a trial admission that is undone.
pub(super) fn evaluate(
    ledger: &mut Ledger,
    gaps: Option<&Gaps>,
    request: &PodRequest,
) -> Evaluation {
    let admission = match ledger.admit(request.pod(), &mut NoPreference) {
        Ok(admission) => admission,
        Err(error) => return Evaluation::Rejected(NodeRejection::Ledger(error)),
    };
    undo(ledger, admission.change.as_ref());
    let decision = admission.decision;
    if let Some(gap) = gaps.and_then(|gaps| gaps.affecting(ledger, request.pod(), &decision)) {
        return Evaluation::Rejected(NodeRejection::Uncertain(gap));
    }
    let summary = summary(&decision);
    let assignment = match decision.result {
        decision::AdmissionResult::Admitted(assignment) => assignment,
        decision::AdmissionResult::Rejected(rejection) => {
            return Evaluation::Rejected(NodeRejection::Kubelet(rejection, summary));
        }
    };
    let (cpus, numa) = totals(ledger, &assignment);
    Evaluation::Fits(Fit {
        score: FitScore::Absolute(score(numa.len(), ledger.rules().topology().num_nodes())),
        cpus,
        numa,
    })
}

/// Admits a pod to the ledger.
pub(super) fn reserve(
    ledger: &mut Ledger,
    request: &PodRequest,
) -> Result<NodeReservation, NodeRejection> {
    let assignment = admit(ledger, request)?;
    let (cpus, numa) = totals(ledger, &assignment);
    Ok(NodeReservation {
        cpus,
        amounts: TakenAmounts::new(),
        numa,
        detail: PlacementDetail::Kubelet(assignment),
    })
}

pub(super) fn release(ledger: &mut Ledger, pod: &PodUid) {
    // A pod that the ledger no longer holds is already released.
    let _released = ledger.release(pod);
}

fn admit(ledger: &mut Ledger, request: &PodRequest) -> Result<Assignment, NodeRejection> {
    let admission = ledger
        .admit(request.pod(), &mut NoPreference)
        .map_err(NodeRejection::Ledger)?;
    let summary = summary(&admission.decision);
    match admission.decision.result {
        decision::AdmissionResult::Admitted(assignment) => Ok(assignment),
        decision::AdmissionResult::Rejected(rejection) => {
            undo(ledger, admission.change.as_ref());
            Err(NodeRejection::Kubelet(rejection, summary))
        }
    }
}

/// The resource that was missing, if the decision is a rejection.
fn summary(decision: &Decision) -> Option<Box<RejectionSummary>> {
    match decision.is_admitted() {
        true => None,
        false => RejectionSummary::of(decision).map(Box::new),
    }
}

fn undo(ledger: &mut Ledger, change: Option<&Change>) {
    if let Some(change) = change {
        ledger
            .undo(change)
            .expect("the change that was just made can be undone");
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
