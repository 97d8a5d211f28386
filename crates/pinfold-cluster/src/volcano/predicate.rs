//! Decides whether one task fits one node, and chooses its CPUs there.
//!
//! Mirrors `filterNodeByPolicy` and the plugin's predicate function: pods that are not Guaranteed pass without a
//! decision, a task with a policy needs a node with the same policy, and then the containers get CPUs one after the
//! other from a copy of the node's free CPUs. Nothing is committed here.
//!
//! Volcano ignores init containers. Sound mode assigns CPUs to them too: an init container that terminates releases its
//! CPUs to the pod, later containers of the pod use those first, and sidecars keep theirs. If memory and devices are
//! counted per NUMA node, it aligns them with the CPUs.

use std::sync::Arc;

use super::allocate::allocate;
use super::cpu_detail::CpuDetail;
use super::hints::{cpu_hints, reserved_cpus, whole_cpus};
use super::numa_amounts::{NumaAmounts, TakenAmounts, add_taken, raise_taken};
use super::policy::{decide, is_set, pins_cpus, policy_of};
use super::take::{NotEnoughCpus, take};
use crate::volcano::VolcanoDefects;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::Hint;
use pinfold_core::name::{ContainerName, NodeName, ResourceName};
use pinfold_core::pod::{Container, Pod};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;

/// A pod to be scheduled, with its Volcano annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolcanoTask {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The value of its topology policy annotation, if it has one. Any text is allowed.
    pub policy: Option<String>,
}

impl VolcanoTask {
    /// The policy that it requires; `None` if the annotation is absent, empty or `none`.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        let text = self.policy.as_deref();
        text.filter(|text| is_set(text))
    }
}

/// The Numatopology object of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaInfo {
    /// The kubelet's CPU manager policy; empty if not reported.
    pub cpu_manager: String,
    /// The kubelet's topology policy; empty if not reported.
    pub topology: String,
    /// Core, NUMA node and socket of its CPUs.
    pub cpus: CpuDetail,
    /// The CPUs that no container holds; `None` if the object lists no CPU resource.
    pub free: Option<CpuSet>,
    /// The CPU reserved for the system, if the object has such an entry.
    pub reserved: Option<Quantity>,
}

/// A node as Volcano reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionNode {
    /// Its name.
    pub name: NodeName,
    /// Its Numatopology object, if it has one.
    pub numa: Option<NumaInfo>,
}

/// Why a task does not fit a node. The texts are the plugin's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// The task has a policy and the node no Numatopology object.
    #[error("numa info is empty")]
    NoNumaInfo,
    /// The task has a policy and the node's CPU manager policy is not `static`.
    #[error("cpu manager policy isn't static")]
    CpuManagerNotStatic,
    /// The policy of the node differs from the policy of the task.
    #[error("task topology policy[{task}] is different with node[{node}]")]
    OtherPolicy {
        /// The policy of the task.
        task: String,
        /// The policy of the node.
        node: String,
    },
    /// The task has a policy and the node no free CPU.
    #[error("cpu allocatable map is empty")]
    NoFreeCpus,
    /// The node's policy does not admit a container.
    #[error("container {container} cannot be assigned by numa")]
    NotAdmitted {
        /// The container.
        container: ContainerName,
        /// The best hint.
        hint: Hint,
    },
    /// The policy admits a container, but there are not enough CPUs for it (sound mode only).
    #[error("container {container} needs {needed} cpus, {available} are available")]
    TooFewCpus {
        /// The container.
        container: ContainerName,
        /// The number of CPUs it needs.
        needed: usize,
        /// The number of CPUs that are free, not reserved and not held by another container of the pod.
        available: usize,
    },
    /// The policy admits a container, but there is too little memory or too few devices for it (sound mode only).
    #[error("container {container} needs {needed} of {resource}, {available} are available")]
    TooLittle {
        /// The container.
        container: ContainerName,
        /// The resource.
        resource: ResourceName,
        /// The amount it needs.
        needed: u64,
        /// The free amount of all NUMA nodes.
        available: u64,
    },
}

/// The CPUs, memory and devices of a task on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAllocation {
    /// The CPUs of all its containers.
    pub cpus: CpuSet,
    /// The most memory and devices that its containers use on each NUMA node at the same time.
    pub amounts: TakenAmounts,
}

/// Whether CPUs have to be chosen on the node: with `false` the task passes without a decision.
/// Mirrors `filterNodeByPolicy`.
///
/// # Errors
/// If the task requires a policy that the node does not have.
fn needs_decision(
    task: &VolcanoTask,
    numa: Option<&NumaInfo>,
    free: Option<&CpuSet>,
) -> Result<bool, Misfit> {
    let Some(policy) = task.policy() else {
        return Ok(numa.is_some_and(|numa| pins_cpus(&numa.cpu_manager) && is_set(&numa.topology)));
    };
    let numa = numa.ok_or(Misfit::NoNumaInfo)?;
    if !pins_cpus(&numa.cpu_manager) {
        return Err(Misfit::CpuManagerNotStatic);
    }
    if numa.topology != policy {
        return Err(Misfit::OtherPolicy {
            task: policy.to_owned(),
            node: numa.topology.clone(),
        });
    }
    if free.is_none_or(CpuSet::is_empty) {
        return Err(Misfit::NoFreeCpus);
    }
    Ok(true)
}

/// The allocation of `task` on a node with these free CPUs, memory and devices; `None` if no CPUs have to be chosen.
/// `reserved` is the result of [`reserved_cpus`] for the node.
///
/// # Errors
/// If the task does not fit.
pub fn simulate(
    task: &VolcanoTask,
    numa: Option<&NumaInfo>,
    free: Option<&CpuSet>,
    reserved: &CpuSet,
    amounts: &NumaAmounts,
    fidelity: Fidelity,
) -> Result<Option<TaskAllocation>, Misfit> {
    if QosClass::of(&task.pod) != QosClass::Guaranteed || !needs_decision(task, numa, free)? {
        return Ok(None);
    }
    let Some(numa) = numa else {
        return Ok(None);
    };
    let mut placing = Placing {
        detail: &numa.cpus,
        policy: policy_of(&numa.topology),
        available: free.map(|free| free - reserved),
        released: CpuSet::new(),
        amounts: match fidelity.aligns_cpus_only() {
            true => NumaAmounts::default(),
            false => amounts.clone(),
        },
        running: TakenAmounts::new(),
        decision: TaskAllocation::default(),
        fidelity,
    };
    if !fidelity.skips_init_containers() {
        for container in &task.pod.init_containers {
            placing.place(container, !container.restartable)?;
        }
    }
    for container in &task.pod.containers {
        placing.place(container, false)?;
    }
    Ok(Some(placing.decision))
}

impl NumaInfo {
    /// The CPUs reserved for the system; see [`reserved_cpus`].
    #[must_use]
    pub fn reserved_cpus(&self, fidelity: Fidelity) -> CpuSet {
        reserved_cpus(&self.cpus, self.reserved.as_ref(), fidelity)
    }
}

/// The state while the containers of one pod get CPUs on one node.
struct Placing<'a> {
    detail: &'a CpuDetail,
    policy: TopologyPolicy,
    /// CPUs that are free, not reserved and not held by a running container of the pod; `None` as long as the node has
    /// no CPU entry.
    available: Option<CpuSet>,
    /// Available CPUs that an init container of this pod released.
    released: CpuSet,
    /// The free memory and devices.
    amounts: NumaAmounts,
    /// The memory and devices of the running containers of the pod.
    running: TakenAmounts,
    decision: TaskAllocation,
    fidelity: Fidelity,
}

impl Placing<'_> {
    fn place(&mut self, container: &Container, terminates: bool) -> Result<(), Misfit> {
        let cpus = whole_cpus(&container.requests);
        let hints = cpu_hints(self.detail, self.available.as_ref(), cpus, self.fidelity);
        let others = self.amounts.hints(&container.requests);
        let nodes = self.detail.node_ids() | self.amounts.nodes();
        let decision = decide(self.policy, nodes, &[hints, others]);
        if !decision.admit {
            return Err(Misfit::NotAdmitted {
                container: container.name.clone(),
                hint: decision.hint,
            });
        }
        let cpus = usize::try_from(cpus).unwrap_or(0);
        let chosen = self.choose(cpus, &decision.hint);
        // From here on the node has a CPU entry.
        let available = self.available.get_or_insert_default();
        let Ok(chosen) = chosen else {
            return Err(Misfit::TooFewCpus {
                container: container.name.clone(),
                needed: cpus,
                available: available.common_len(self.detail.all()),
            });
        };
        if terminates {
            self.released |= &chosen;
        } else {
            *available -= &chosen;
            self.released -= &chosen;
        }
        self.decision.cpus |= &chosen;
        self.take_amounts(container, terminates, &decision.hint)
    }

    fn take_amounts(
        &mut self,
        container: &Container,
        terminates: bool,
        hint: &Hint,
    ) -> Result<(), Misfit> {
        let taken = self.amounts.take(hint.mask, &container.requests);
        let taken = taken.map_err(|short| Misfit::TooLittle {
            container: container.name.clone(),
            resource: short.resource,
            needed: short.needed,
            available: short.available,
        })?;
        let mut now = self.running.clone();
        add_taken(&mut now, &taken);
        raise_taken(&mut self.decision.amounts, &now);
        match terminates {
            true => self.amounts.add(&taken),
            false => self.running = now,
        }
        Ok(())
    }

    /// Chooses CPUs, first on the hint's NUMA nodes, and there first those that init containers of the pod released.
    fn choose(&self, cpus: usize, hint: &Hint) -> Result<CpuSet, NotEnoughCpus> {
        let none = CpuSet::new();
        let available = self.available.as_ref().unwrap_or(&none);
        let mut again = &self.released & available;
        if let Some(mask) = hint.mask {
            again &= &self.detail.cpus_of(mask);
        }
        let mut chosen = take(self.detail, &again, cpus.min(again.len()), self.fidelity)?;
        let missing = cpus.saturating_sub(chosen.len());
        chosen |= &allocate(
            self.detail,
            &(available - &chosen),
            hint.mask,
            missing,
            self.fidelity,
        )?;
        Ok(chosen)
    }
}
