//! What must hold after every step.
//!
//! 1. The ledger is consistent: no CPU, device, byte or huge page is held twice.
//! 2. A container that runs has the exclusive CPUs of the journal, or the newest shared pool.
//! 3. A pod that ended holds nothing.
//! 4. A container that runs or is being created keeps its CPUs, and its devices whatever happens, unless its CPUs are gone or reserved.
//! 5. A rejected request changes nothing.
//! 6. A pod that the API server has as active keeps its CPUs, whether its sandbox runs or not.
//! 7. A container that the kubelet pinned before the takeover keeps its CPUs.
//! 8. A container with exclusive CPUs has as many as it requests, and no CPU quota. Others have the quota of their limit.
//! 9. A container with memory of its own has it on the nodes of the journal. Others may use all nodes.
//!
//! Before the takeover the kubelet pins: 2, 4 and 6 hold from then on.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::DevicesByResource;
use pinfold_core::ledger::LedgerState;
use pinfold_core::node_set::NodeSet;

use super::Step;
use super::played_node::{PlayedContainer, PlayedNode};

/// The state before a step.
pub(super) struct Before {
    state: Option<LedgerState>,
    /// Exclusive CPUs and devices of the containers.
    held: BTreeMap<String, (CpuSet, DevicesByResource)>,
    /// Exclusive CPUs of the pods that the API server has as active.
    active: BTreeMap<String, CpuSet>,
    /// CPUs of the running containers that the kubelet pinned.
    pinned: BTreeMap<String, CpuSet>,
    is_pinning: bool,
    /// Whether releases may be pending because the disk was full.
    pending: bool,
}

impl Before {
    pub(super) fn of(node: &PlayedNode, step: Step) -> Self {
        let is_request = matches!(
            step,
            Step::Run(_) | Step::Create(..) | Step::Resize(..) | Step::Shrink(..)
        );
        Self {
            state: is_request.then(|| node.state()).flatten(),
            held: node.held_by_containers(),
            active: node.held_by_active(),
            pinned: node.pinned_by_kubelet(),
            is_pinning: node.is_pinning(),
            pending: node.pending,
        }
    }
}

/// The first rule that does not hold.
pub(super) fn check(
    node: &PlayedNode,
    step: Step,
    before: &Before,
    rejected: bool,
) -> Result<(), String> {
    if !node.is_managed() {
        return Ok(());
    }
    if let Some(finding) = node.audit().first() {
        return Err(format!("{finding}"));
    }
    if rejected && let (Some(old), Some(state)) = (&before.state, node.state()) {
        let same = old.cpus() == state.cpus()
            && old.memory() == state.memory()
            && old.devices() == state.devices()
            && old.admitted_pods() == state.admitted_pods();
        if !same {
            return Err("a rejected request changed the ledger".to_owned());
        }
    }
    if let Some(uid) = node.ended_but_held(step).first() {
        return Err(format!("{uid} ended and holds resources"));
    }
    if !node.is_pinning() {
        return Ok(());
    }
    for container in node.running() {
        let before = before.pinned.get(&container.id);
        if let Some(before) = before.filter(|before| **before != container.cpus) {
            let (id, now) = (&container.id, &container.cpus);
            return Err(format!(
                "{id} ran on {before} by the kubelet and now on {now}"
            ));
        }
    }
    for container in node.running() {
        if !node.knows(container) {
            return Err(format!("{} runs and is not known", container.id));
        }
        let own = node.exclusive_cpus(container);
        if node.awaits_kubelet_cpus(container, own.as_ref()) {
            continue;
        }
        let shared = || node.shared_cpus(container);
        let expected = own.clone().unwrap_or_else(shared);
        // Without a CPU manager, a container without CPUs of its own may use those of the cgroup above it.
        let is_set = container.has_cpus || node.has_cpu_manager();
        if container.cpus != expected && is_set {
            let (id, found) = (&container.id, &container.cpus);
            return Err(format!("{id} runs on {found} instead of {expected}"));
        }
        // The quota and memory of a container that the kubelet pinned are the kubelet's.
        if !node.setup.takeover {
            has_what_it_requests(node, container, own.as_ref())?;
            has_its_memory(node, container)?;
        }
    }
    if !before.is_pinning {
        return Ok(());
    }
    // A stricter policy may also move a pod from both NUMA nodes to one.
    let one: CpuSet = "0-3,8-11".parse().expect("CPUs");
    let spans = |cpus: &CpuSet| !cpus.is_subset(&one) && !cpus.is_disjoint(&one);
    let may_move = |cpus: &CpuSet| match step {
        // Without a CPU manager no pod has CPUs, and with one again those that need some get them.
        Step::Rules(_) | Step::StartAgent if !node.has_cpu_manager() || cpus.is_empty() => true,
        Step::Offline(_) => !cpus.is_subset(&node.assignable_cpus()),
        Step::Rules(_) | Step::StartAgent => {
            spans(cpus) || !cpus.is_subset(&node.assignable_cpus())
        }
        _ => false,
    };
    let active = node.held_by_active();
    for (uid, cpus) in &before.active {
        let now = active.get(uid);
        let is_removed =
            matches!(step, Step::RemoveSandbox(_)) || before.pending && !node.has_sandbox_of(uid);
        // After the takeover the ledger has the kubelet's CPUs instead of those that the agent chose before.
        let is_corrected = now.is_some_and(|now| *now == node.kubelet_cpus(uid));
        let may_move = is_removed || is_corrected || may_move(cpus);
        if node.is_active(uid) && now != Some(cpus) && !may_move {
            return Err(format!("pod {uid} lost CPUs {cpus}: {now:?}"));
        }
    }
    let after = node.held_by_containers();
    for (id, (cpus, devices)) in &before.held {
        let Some((now, devices_now)) = after.get(id) else {
            continue;
        };
        if now != cpus && !before.pinned.contains_key(id) && !may_move(cpus) {
            return Err(format!("{id} moved from {cpus} to {now}"));
        }
        if devices != devices_now {
            return Err(format!("{id} lost a device"));
        }
    }
    Ok(())
}

/// Rule 8.
fn has_what_it_requests(
    node: &PlayedNode,
    container: &PlayedContainer,
    own: Option<&CpuSet>,
) -> Result<(), String> {
    let (id, milli, found) = (&container.id, container.milli, container.quota);
    let needed = node.needed_milli(container);
    if let Some(own) = own
        && own.len() as u64 * 1000 != needed
        && !container.resized_unseen
    {
        return Err(format!("{id} needs {needed}m and has CPUs {own}"));
    }
    let expected = match own {
        Some(_) => -1,
        None => i64::try_from(milli * 100).expect("small"),
    };
    match found == expected {
        true => Ok(()),
        false => Err(format!("{id} has CPU quota {found} instead of {expected}")),
    }
}

/// Rule 9.
fn has_its_memory(node: &PlayedNode, container: &PlayedContainer) -> Result<(), String> {
    let (id, own) = (&container.id, node.memory_nodes(container));
    let all = NodeSet::from_bits(0b11);
    match (container.mems, own) {
        (found, Some(own)) if found != Some(own) => {
            Err(format!("{id} has memory nodes {found:?} instead of {own}"))
        }
        (Some(found), None) if found != all => Err(format!("{id} is left on memory nodes {found}")),
        _ => Ok(()),
    }
}
