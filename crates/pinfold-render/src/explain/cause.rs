//! The error of the manager that failed, as a sentence.

use pinfold_core::cpu::{CpuError, TakeError};
use pinfold_core::device::DeviceError;
use pinfold_core::explanation::{Cause, MemoryGrouping, ResourceFacts};
use pinfold_core::memory::{EmptySharedPool, MemoryError};

use super::alignment::{binding, cannot, each};
use super::phrases::{bytes, nodes, plural};

/// The sentence, without a full stop.
pub(super) fn sentence(cause: &Cause, facts: &[ResourceFacts]) -> String {
    match cause {
        Cause::Cpu(error) => cpus(error, facts),
        Cause::Memory(error) => memory(error, facts),
        Cause::Device(error) => devices(error, facts),
    }
}

fn cpus(error: &CpuError, facts: &[ResourceFacts]) -> String {
    let cpus = |count: usize| plural(count as u64, "CPU", "CPUs");
    match *error {
        CpuError::NotWholeCores {
            requested,
            per_core,
        } => format!(
            "full-pcpus-only: {} {} not fill whole cores of {}",
            cpus(requested),
            if requested == 1 { "does" } else { "do" },
            cpus(per_core)
        ),
        CpuError::TooFewWholeCores {
            requested,
            available,
            ..
        } => format!(
            "full-pcpus-only: {} requested, but whole free cores have only {}{}",
            cpus(requested),
            cpus(available),
            listed(facts)
        ),
        CpuError::NothingLeftForInit => "sidecars with exclusive CPUs use up the pod's CPUs, \
             and an init container without exclusive CPUs would have none"
            .to_owned(),
        CpuError::NothingLeftToShare => "containers with exclusive CPUs use up the pod's CPUs, \
             and the containers in the shared pool would have none"
            .to_owned(),
        CpuError::Take(TakeError::NotEnough {
            requested,
            available,
        }) => match facts.iter().find(|facts| facts.free < facts.requested) {
            // The error may count only the rest, after CPUs of the preferred NUMA nodes were taken.
            Some(short) => cannot(short),
            None => format!(
                "{} requested, but only {} free{}",
                cpus(requested),
                cpus(available),
                listed(facts)
            ),
        },
        CpuError::Take(TakeError::Incomplete) => {
            format!(
                "the free CPUs do not satisfy the options of the CPU manager{}",
                listed(facts)
            )
        }
        CpuError::Take(TakeError::TookTooFew { missing }) => {
            format!(
                "spreading the CPUs over NUMA nodes took {} too few",
                cpus(missing)
            )
        }
        CpuError::Take(TakeError::TookTooMany { surplus }) => {
            format!(
                "spreading the CPUs over NUMA nodes took {} too many",
                cpus(surplus)
            )
        }
        CpuError::Take(TakeError::NeverReturns) => {
            "the kubelet never returns from this: no NUMA node has a whole group of CPUs left"
                .to_owned()
        }
        CpuError::Take(TakeError::Crashes) => {
            "the kubelet crashes on this: the machine has fewer CPUs than cores".to_owned()
        }
        CpuError::Take(TakeError::TooManyCombinations { .. }) => {
            "the kubelet would try too many combinations of NUMA nodes to finish".to_owned()
        }
    }
}

/// `: node 0 has 3, node 1 has 5`, if known.
fn listed(facts: &[ResourceFacts]) -> String {
    facts
        .first()
        .map(|facts| format!(": {}", each(facts)))
        .unwrap_or_default()
}

fn memory(error: &MemoryError, facts: &[ResourceFacts]) -> String {
    if let Some(short) = facts.iter().find(|facts| facts.free < facts.requested) {
        return cannot(short);
    }
    match error {
        MemoryError::NotWholeBytes(_) => not_whole(),
        MemoryError::NoNodes { requested } => {
            let requested = requested
                .iter()
                .map(|(name, &size)| format!("{} {name}", bytes(size)));
            let requested: Vec<String> = requested.collect();
            format!(
                "no set of NUMA nodes has {}{}",
                requested.join(" and "),
                bound(facts)
            )
        }
        MemoryError::DefaultNotPreferred { best } => format!(
            "memory fits only on {}, more than an empty machine would need{}",
            nodes(*best),
            bound(facts)
        ),
        MemoryError::CannotExtend { chosen, .. } => format!(
            "{} cannot hold the memory, and no wider set that contains {} can{}",
            nodes(*chosen),
            if chosen.len() == 1 { "it" } else { "them" },
            bound(facts)
        ),
        MemoryError::ExtendedNotPreferred { chosen, best } => format!(
            "{} cannot hold the memory; {} could, but would not be preferred",
            nodes(*chosen),
            nodes(*best)
        ),
        MemoryError::BreaksGroup { chosen } => format!(
            "memory groups of running pods prevent using {} together{}",
            nodes(*chosen),
            bound(facts)
        ),
        MemoryError::EmptySharedPool(EmptySharedPool::Init(resource)) => {
            format!(
                "sidecars use up the pod's {resource}, and an init container in the shared pool would have none"
            )
        }
        MemoryError::EmptySharedPool(EmptySharedPool::App(resource)) => format!(
            "containers with their own {resource} use up the pod's {resource}, \
             and the containers in the shared pool would have none"
        ),
        MemoryError::EmptySharedPool(EmptySharedPool::NotWholeBytes(_)) => not_whole(),
        MemoryError::UnknownNodes { unknown } => {
            format!(
                "{} were chosen, but this machine does not have them",
                nodes(*unknown)
            )
        }
    }
}

fn not_whole() -> String {
    "an amount of memory is not a whole number of bytes".to_owned()
}

/// How allocated memory restricts the use of nodes, if it does.
fn bound(facts: &[ResourceFacts]) -> String {
    let nodes = facts.first().into_iter().flat_map(|facts| &facts.nodes);
    let bound: Vec<String> = nodes
        .filter(|node| node.grouping != MemoryGrouping::Unrestricted)
        .take(4)
        .map(binding)
        .collect();
    match bound.is_empty() {
        true => String::new(),
        false => format!(": {}", bound.join(", ")),
    }
}

fn devices(error: &DeviceError, facts: &[ResourceFacts]) -> String {
    match error {
        DeviceError::ChangedRequest {
            resource,
            held,
            required,
            ..
        } => {
            format!("{resource}: the container holds {held}, but requests {required} now")
        }
        DeviceError::Unregistered { resource } => {
            format!("{resource}: no device plugin is registered for it")
        }
        DeviceError::NoneHealthy { resource } => format!("{resource}: no device is healthy"),
        DeviceError::NoLongerHealthy { resource } => {
            format!("{resource}: a device that the container holds is unhealthy")
        }
        DeviceError::Unavailable {
            resource,
            requested,
            available,
        } => {
            match facts
                .iter()
                .find(|facts| facts.resource == *resource && facts.free < facts.requested)
            {
                Some(facts) => cannot(facts),
                None => {
                    format!("{resource}: {requested} more requested, but only {available} free")
                }
            }
        }
        DeviceError::TooFew { requested, .. } => {
            format!("{requested} is not a valid number of devices")
        }
        DeviceError::NoAdvice { message } => {
            format!("GetPreferredAllocation of the device plugin failed: {message}")
        }
    }
}
