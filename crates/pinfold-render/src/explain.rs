//! Text of decisions for people: why a pod was rejected and what would fit, or where it was placed and why.
//!
//! Made from facts ([`Explanation`](pinfold_core::explanation::Explanation), [`Remedies`]), never from messages. Lines
//! stay within a number of columns and are legible without colour. The text is the same under both fidelities: only the facts
//! differ.

use std::fmt::Write;

use pinfold_core::decision::{
    AdmissionResult, ContainerAssignment, Decision, Rejection, ResourceManager,
};
use pinfold_core::explanation::{Alignment, ResourceFacts};
use pinfold_core::merge::{MergeSearch, UnfinishedSearches};
use pinfold_core::name::DeviceId;
use pinfold_core::remedy::Remedies;

mod alignment;
mod cause;
mod moves;
mod phrases;
mod remedies;
mod shortage;

use phrases::{clip, wrap};

pub use moves::defragmentation;
pub use phrases::WIDTH;
pub use remedies::line as remedy;

/// The maximum length of an event message.
const EVENT: usize = 200;

/// Why a pod was rejected: one sentence, the requested and free amounts of every resource, and what would fit. Empty if
/// it was not rejected. `name` is the pod's display name.
#[must_use]
pub fn rejection(
    name: &str,
    decision: &Decision,
    remedies: Option<&Remedies>,
    width: usize,
) -> String {
    let Some(rejection) = decision.rejection() else {
        return String::new();
    };
    rejection_of(
        &subject(name, rejection),
        decision,
        rejection,
        remedies,
        width,
    )
}

fn rejection_of(
    subject: &str,
    decision: &Decision,
    rejection: &Rejection,
    remedies: Option<&Remedies>,
    width: usize,
) -> String {
    let mut text = wrap(&format!("{subject}:"), 0, width);
    text.push_str(&wrap(
        &format!("{}.", sentence(decision, rejection)),
        2,
        width,
    ));
    let facts = facts(decision);
    if !facts.is_empty() {
        text.push('\n');
        text.push_str(&shortage::table(facts, width));
    }
    let unfinished = decision
        .explanation
        .alignments
        .iter()
        .map(|alignment| alignment.merge.unfinished);
    text.push_str(&notes(unfinished, width));
    if let Some(remedies) = remedies {
        text.push_str(&remedies::list(remedies, width));
    }
    text
}

/// Why a command cannot run on exclusive CPUs, without the words of pods. Empty if it was not rejected.
#[must_use]
pub fn command_rejection(command: &str, decision: &Decision, width: usize) -> String {
    let Some(rejection) = decision.rejection() else {
        return String::new();
    };
    let subject = format!("cannot run {command}");
    rejection_of(&subject, decision, rejection, None, width)
}

/// Where the containers of an admitted pod were placed, and why. Empty if it was rejected. `name` is the pod's display
/// name.
#[must_use]
pub fn admission(name: &str, decision: &Decision, width: usize) -> String {
    let Some(assignment) = decision.assignment() else {
        return String::new();
    };
    let explanation = &decision.explanation;
    let mut text = wrap(
        &format!("Pod {name} is admitted ({}).", terms(decision)),
        0,
        width,
    );
    for container in &assignment.containers {
        text.push_str(&wrap(
            &format!("container {}: {}", container.name, holding(container)),
            2,
            width,
        ));
        let own = explanation
            .alignments
            .iter()
            .find(|one| one.container.as_ref() == Some(&container.name));
        if let Some(alignment) = own {
            text.push_str(&wrap(
                &alignment::placed(explanation.policy, alignment),
                4,
                width,
            ));
        }
    }
    if let Some(whole) = explanation
        .alignments
        .iter()
        .find(|alignment| alignment.container.is_none())
    {
        text.push_str(&wrap(
            &format!("the pod: {}", alignment::placed(explanation.policy, whole)),
            2,
            width,
        ));
    }
    text.push_str(&notes(
        explanation
            .alignments
            .iter()
            .map(|alignment| alignment.merge.unfinished),
        width,
    ));
    text
}

/// The decision in at most 200 characters, for events and log lines.
#[must_use]
pub fn one_line(decision: &Decision) -> String {
    let line = match &decision.result {
        AdmissionResult::Rejected(rejection) => {
            let at = rejection
                .container
                .as_ref()
                .map(|name| format!("container {name}: "));
            format!(
                "{}: {}{}",
                rejection.reason,
                at.unwrap_or_default(),
                sentence(decision, rejection)
            )
        }
        AdmissionResult::Admitted(assignment) => {
            let part = |container: &ContainerAssignment| {
                format!("{}: {}", container.name, holding(container))
            };
            let parts: Vec<String> = assignment.containers.iter().map(part).collect();
            format!("Admitted: {}", parts.join("; "))
        }
    };
    clip(&line, EVENT)
}

fn subject(name: &str, rejection: &Rejection) -> String {
    let container = rejection
        .container
        .as_ref()
        .map(|name| format!(" (container {name})"));
    format!(
        "Pod {name}{} is rejected, {}",
        container.unwrap_or_default(),
        rejection.reason
    )
}

/// The reason of a rejection, without a full stop.
fn sentence(decision: &Decision, rejection: &Rejection) -> String {
    let explanation = &decision.explanation;
    if let Some(cause) = &explanation.cause {
        return cause::sentence(cause, facts(decision));
    }
    match failed(decision) {
        Some(alignment) => format!(
            "{}: {}",
            explanation.policy,
            alignment::not_preferred(explanation.policy, alignment)
        ),
        None => match rejection.manager {
            Some(ResourceManager::Device) => "the devices cannot be allocated".to_owned(),
            Some(ResourceManager::Cpu) => "the CPUs cannot be allocated".to_owned(),
            Some(ResourceManager::Memory) => "the memory cannot be allocated".to_owned(),
            None => format!("{}: the resources cannot be aligned", explanation.policy),
        },
    }
}

fn failed(decision: &Decision) -> Option<&Alignment> {
    decision
        .explanation
        .alignments
        .last()
        .filter(|alignment| !alignment.admitted)
}

/// The facts that explain a rejection.
fn facts(decision: &Decision) -> &[ResourceFacts] {
    match failed(decision) {
        Some(alignment) => &alignment.resources,
        None => &decision.explanation.shortage,
    }
}

/// The topology policy and scope of a decision.
fn terms(decision: &Decision) -> String {
    use pinfold_core::policy::TopologyPolicy;
    use pinfold_core::settings::TopologyScope;
    let policy = decision.explanation.policy;
    match (policy, decision.explanation.scope) {
        (TopologyPolicy::None, _) => "policy none: nothing is aligned".to_owned(),
        (_, TopologyScope::Container) => format!("{policy}, each container by itself"),
        (_, TopologyScope::Pod) => format!("{policy}, all containers together"),
    }
}

/// The assignment of one container.
fn holding(container: &ContainerAssignment) -> String {
    let mut parts = Vec::new();
    if let Some(nodes) = container.affinity.mask {
        parts.push(phrases::aligned(nodes, container.affinity.preferred));
    }
    parts.push(match &container.cpus {
        Some(cpus) => format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" }),
        None => "shared CPUs".to_owned(),
    });
    for block in container
        .memory
        .iter()
        .flatten()
        .filter(|block| block.size > 0)
    {
        parts.push(format!(
            "{} {} of {}",
            phrases::bytes(block.size),
            block.resource,
            phrases::nodes(block.nodes)
        ));
    }
    for (resource, devices) in &container.devices {
        let ids: Vec<&str> = devices.iter().map(DeviceId::as_str).collect();
        parts.push(format!("{resource} {}", ids.join(",")));
    }
    parts.join(", ")
}

/// One note per unfinished search of the merge.
fn notes(unfinished: impl Iterator<Item = UnfinishedSearches>, width: usize) -> String {
    let mut all = UnfinishedSearches::NONE;
    for search in unfinished.flat_map(UnfinishedSearches::iter) {
        all.insert(search);
    }
    let mut text = String::new();
    for search in all.iter() {
        let note = match search {
            MergeSearch::Width => "narrower NUMA nodes may exist: not all were compared",
            MergeSearch::Preferred => {
                "NUMA nodes that all resources prefer may exist: not all were tried"
            }
            MergeSearch::Choices => {
                "a better placement may exist: not all combinations were compared"
            }
            MergeSearch::Reach => {
                "a placement on lower NUMA nodes may exist: not all were compared"
            }
            MergeSearch::Closest => "closer NUMA nodes may exist: not all were compared",
            MergeSearch::Amounts => "amounts beyond 2^57 were rounded, to the safe side",
            MergeSearch::UnknownNodes => "NUMA nodes that the machine does not have were left out",
        };
        let _ = write!(text, "{}", wrap(&format!("Note: {note}."), 0, width));
    }
    match text.is_empty() {
        true => text,
        false => format!("\n{text}"),
    }
}

#[cfg(test)]
mod tests;
