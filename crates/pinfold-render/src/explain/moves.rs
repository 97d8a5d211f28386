//! Move plans: the pods that are moved, from where to where, and the steps.

use std::fmt::Write;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::Assignment;
use pinfold_core::node_set::NodeSet;
use pinfold_core::remedy::{Alteration, Defragmentation, Move, MovePlan, MoveStep, PodRef, Remedy};

use super::phrases::{plural, wrap};
use crate::placement::placement;

/// `move pod a from CPUs 2-3 to 8-9, pod b from NUMA node 0 to 1`.
pub(super) fn what(plan: &MovePlan) -> String {
    let parts: Vec<String> = plan.moves.iter().map(shift).collect();
    format!("move {}", parts.join(", "))
}

/// One move, described by the first difference: CPUs, NUMA nodes, or the whole assignment.
fn shift(one: &Move) -> String {
    let subject = format!("pod {}", called(&one.pod));
    let (from, to) = (cpus(&one.from), cpus(&one.to));
    if from != to {
        return format!("{subject} from CPUs {from} to {to}");
    }
    let (from, to) = (nodes(&one.from), nodes(&one.to));
    if from != to {
        return format!("{subject} from NUMA node {from} to {to}");
    }
    format!(
        "{subject} from {} to {}",
        placement(&one.from),
        placement(&one.to)
    )
}

/// The text of a search for the fewest moves so that the pod `name` fits.
#[must_use]
pub fn defragmentation(name: &str, found: &Defragmentation, width: usize) -> String {
    if found.decision.is_admitted() {
        return wrap(&format!("Pod {name} fits without a move."), 0, width);
    }
    match &found.plan {
        Some(remedy) => match &remedy.alteration {
            Alteration::Move(plan) => steps(name, plan, remedy, width),
            _ => String::new(),
        },
        None => wrap(&none(name, found), 0, width),
    }
}

fn none(name: &str, found: &Defragmentation) -> String {
    let most = plural(found.exhausted as u64, "pod", "pods");
    match (found.complete, found.exhausted) {
        (true, _) => format!("No plan that moves up to {most} makes room for pod {name}."),
        (false, 0) => {
            format!("No plan was found that makes room for pod {name}, but not all were tried.")
        }
        (false, _) => format!(
            "No plan that moves up to {most} makes room for pod {name}; not all that move more were tried."
        ),
    }
}

fn steps(name: &str, plan: &MovePlan, remedy: &Remedy, width: usize) -> String {
    let count = plan.moves.len() as u64;
    let mut text = wrap(
        &format!(
            "Pod {name} fits if {} moved; no plan moves fewer.",
            match count {
                1 => "1 pod is".to_owned(),
                _ => format!("{count} pods are"),
            }
        ),
        0,
        width,
    );
    text.push('\n');
    for (index, step) in plan.steps.iter().enumerate() {
        let (what, place) = match step {
            MoveStep::Release(pod) => (
                format!("remove {}", called(pod)),
                moved(plan, pod).map(|one| format!("from {}", placement(&one.from))),
            ),
            MoveStep::Admit(pod) => match moved(plan, pod) {
                Some(one) => (
                    format!("add {} again", called(pod)),
                    Some(format!("on {}", placement(&one.to))),
                ),
                None => (
                    format!("add {}", called(pod)),
                    Some(format!("on {}", placement(&remedy.assignment))),
                ),
            },
        };
        let line = format!("{what} {}", place.unwrap_or_default());
        let lead = format!("{:>2}. ", index + 1);
        let _ = write!(text, "{}", crate::text::paragraph(&lead, &line, 4, width));
    }
    text
}

fn moved<'p>(plan: &'p MovePlan, pod: &PodRef) -> Option<&'p Move> {
    plan.moves.iter().find(|one| one.pod.uid == pod.uid)
}

/// The display name of a pod; its UID if it has none.
pub(super) fn called(pod: &PodRef) -> &str {
    match pod.name.is_empty() {
        true => pod.uid.as_str(),
        false => &pod.name,
    }
}

fn cpus(assignment: &Assignment) -> CpuSet {
    let mut all = CpuSet::new();
    for own in assignment
        .containers
        .iter()
        .filter_map(|one| one.cpus.as_ref())
    {
        all |= own;
    }
    all
}

fn nodes(assignment: &Assignment) -> NodeSet {
    let blocks = assignment
        .containers
        .iter()
        .flat_map(|one| one.memory.iter().flatten());
    let held = blocks.filter(|block| block.size > 0);
    held.fold(NodeSet::EMPTY, |all, block| all | block.nodes)
}
