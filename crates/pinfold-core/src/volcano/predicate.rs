//! Whether one task fits one node, and which CPUs it would get there.
//!
//! Mirrors `filterNodeByPolicy` and the plugin's predicate function: pods that are not Guaranteed pass
//! untouched, a task with a policy of its own needs a node that runs the same one, and then the containers
//! are placed one after the other on a copy of the node's free CPUs. Nothing is committed here.
//!
//! Init containers are ignored by the original. The sound way places them too: an init container that
//! ends gives its CPUs back to the pod, later containers of the pod use those first, and sidecars keep
//! theirs. Where memory and devices are counted per NUMA node, it aligns them with the CPUs.

use super::allocate::allocate;
use super::cpu_detail::CpuDetail;
use super::hints::{cpu_hints, reserved_cpus, whole_cpus};
use super::numa_amounts::{NumaAmounts, TakenAmounts, add_taken, raise_taken};
use super::policy::{decide, policy_of};
use super::take::{NotEnoughCpus, take};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::hint::Hint;
use crate::name::{ContainerName, NodeName, ResourceName};
use crate::pod::{Container, Pod};
use crate::policy::TopologyPolicy;
use crate::qos::QosClass;
use crate::quantity::Quantity;

/// A pod to be scheduled, with what Volcano knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolcanoTask {
    /// The pod.
    pub pod: Pod,
    /// The text of its topology policy annotation, if it has one. Any text is allowed.
    pub policy: Option<String>,
}

impl VolcanoTask {
    /// The policy it insists on: neither absent nor empty nor `none`.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        let text = self.policy.as_deref();
        text.filter(|text| !text.is_empty() && *text != "none")
    }
}

/// What the Numatopology object of a node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaInfo {
    /// The kubelet's CPU manager policy; empty if not reported.
    pub cpu_manager: String,
    /// The kubelet's topology policy; empty if not reported.
    pub topology: String,
    /// Where its CPUs sit.
    pub cpus: CpuDetail,
    /// The CPUs no container owns; `None` if the object lists no CPU resource.
    pub free: Option<CpuSet>,
    /// CPU kept from pods, if the object has such an entry.
    pub reserved: Option<Quantity>,
}

/// One node as the scheduler knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionNode {
    /// Its name.
    pub name: NodeName,
    /// Its Numatopology object, if it has one.
    pub numa: Option<NumaInfo>,
}

/// Why a task does not fit a node. The texts are the plugin's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The task has a policy and the node no Numatopology object.
    #[error("numa info is empty")]
    NoNumaInfo,
    /// The task has a policy and the kubelet there does not pin CPUs.
    #[error("cpu manager policy isn't static")]
    CpuManagerNotStatic,
    /// The node runs another policy than the task asks for.
    #[error("task topology policy[{task}] is different with node[{node}]")]
    OtherPolicy {
        /// What the task asks for.
        task: String,
        /// What the node runs.
        node: String,
    },
    /// The node was not there when the session was opened.
    #[error("no topo information")]
    UnknownNode,
    /// The task has a policy and the node no free CPU.
    #[error("cpu allocatable map is empty")]
    NoFreeCpus,
    /// The node's policy does not admit a container.
    #[error("container {container} cannot be assigned by numa")]
    NotAdmitted {
        /// The container.
        container: ContainerName,
        /// The best hint there was.
        hint: Hint,
    },
    /// The policy admits a container, but there are not enough CPUs for it (sound only).
    #[error("container {container} needs {needed} cpus, {available} are available")]
    TooFewCpus {
        /// The container.
        container: ContainerName,
        /// How many it needs.
        needed: usize,
        /// How many are free, not reserved and not held by another container of the pod.
        available: usize,
    },
    /// The policy admits a container, but there is too little memory or too few devices for it (sound only).
    #[error("container {container} needs {needed} of {resource}, {available} are available")]
    TooLittle {
        /// The container.
        container: ContainerName,
        /// Of what.
        resource: ResourceName,
        /// How much it needs.
        needed: u64,
        /// How much all NUMA nodes have together.
        available: u64,
    },
}

/// What a task would get on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAllocation {
    /// All CPUs it uses at some time.
    pub cpus: CpuSet,
    /// The most it uses of memory and devices on each NUMA node at any time.
    pub amounts: TakenAmounts,
}

/// Volcano's status codes for a task that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StatusCode {
    /// `Error`.
    Error = 1,
    /// `UnschedulableAndUnresolvable`: evicting others would not help.
    UnschedulableAndUnresolvable = 3,
}

impl Misfit {
    /// The status code that goes with it.
    #[must_use]
    pub fn code(&self) -> StatusCode {
        match self {
            Misfit::NotAdmitted { .. } | Misfit::TooFewCpus { .. } | Misfit::TooLittle { .. } => {
                StatusCode::UnschedulableAndUnresolvable
            }
            _ => StatusCode::Error,
        }
    }
}

/// A misfit with its task and node: the message users see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {task} on node {node} fit failed: {misfit}")]
pub struct FitError {
    /// `namespace/name` of the task.
    pub task: String,
    /// The node.
    pub node: NodeName,
    /// The reason.
    #[source]
    pub misfit: Misfit,
}

/// Whether the node has to be asked for CPUs at all: `false` lets the task pass without a decision.
/// Mirrors `filterNodeByPolicy`.
///
/// # Errors
/// If the task insists on a policy that this node cannot serve.
pub fn needs_decision(
    task: &VolcanoTask,
    numa: Option<&NumaInfo>,
    free: Option<&CpuSet>,
) -> Result<bool, Misfit> {
    let Some(policy) = task.policy() else {
        return Ok(numa.is_some_and(|numa| {
            numa.cpu_manager == "static" && !matches!(numa.topology.as_str(), "" | "none")
        }));
    };
    let numa = numa.ok_or(Misfit::NoNumaInfo)?;
    if numa.cpu_manager != "static" {
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

/// What `task` would get on a node with these free CPUs, memory and devices; `None` if the node need not decide.
/// `reserved` is what [`reserved_cpus`] says for the node.
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
        returned: CpuSet::new(),
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
    /// The CPUs kept from pods; see [`reserved_cpus`].
    #[must_use]
    pub fn reserved_cpus(&self, fidelity: Fidelity) -> CpuSet {
        reserved_cpus(&self.cpus, self.reserved.as_ref(), fidelity)
    }
}

/// The containers of one pod being placed on one node.
struct Placing<'a> {
    detail: &'a CpuDetail,
    policy: TopologyPolicy,
    /// Free, not reserved and not held by a container that keeps running; `None` as long as the
    /// node has no CPU entry.
    available: Option<CpuSet>,
    /// Available CPUs that an init container of this pod gave back.
    returned: CpuSet,
    /// Memory and devices that are free.
    amounts: NumaAmounts,
    /// Memory and devices of the containers that keep running.
    running: TakenAmounts,
    decision: TaskAllocation,
    fidelity: Fidelity,
}

impl Placing<'_> {
    fn place(&mut self, container: &Container, gives_back: bool) -> Result<(), Misfit> {
        let cpus = whole_cpus(&container.requests);
        let hints = cpu_hints(self.detail, self.available.as_ref(), cpus, self.fidelity);
        let others = self.amounts.hints(&container.requests);
        let nodes = self.detail.node_ids() | self.amounts.nodes();
        let verdict = decide(self.policy, nodes, &[hints, others]);
        if !verdict.admit {
            return Err(Misfit::NotAdmitted {
                container: container.name.clone(),
                hint: verdict.hint,
            });
        }
        let cpus = usize::try_from(cpus).unwrap_or(0);
        let chosen = self.choose(cpus, &verdict.hint);
        // From now on there is an entry, even if there was none.
        let available = self.available.get_or_insert_default();
        let Ok(chosen) = chosen else {
            return Err(Misfit::TooFewCpus {
                container: container.name.clone(),
                needed: cpus,
                available: available.common_len(self.detail.all()),
            });
        };
        if gives_back {
            self.returned |= &chosen;
        } else {
            *available -= &chosen;
            self.returned -= &chosen;
        }
        self.decision.cpus |= &chosen;
        self.take_amounts(container, gives_back, &verdict.hint)
    }

    fn take_amounts(
        &mut self,
        container: &Container,
        gives_back: bool,
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
        match gives_back {
            true => self.amounts.add(&taken),
            false => self.running = now,
        }
        Ok(())
    }

    /// CPUs on the hint's nodes first; among them those the pod has already.
    fn choose(&self, cpus: usize, hint: &Hint) -> Result<CpuSet, NotEnoughCpus> {
        let none = CpuSet::new();
        let available = self.available.as_ref().unwrap_or(&none);
        let mut again = &self.returned & available;
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
