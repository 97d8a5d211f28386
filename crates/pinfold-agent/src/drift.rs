//! Drift: finds containers whose cgroups differ from their [`Allowance`], guesses which program changed them, and
//! repairs them.
//!
//! ```text
//! cgroup ─► ObservedCgroup ─────┐                                      ┌─► repaired by the runtime, else by CgroupWriter
//! WatchedContainer: allowance ──┼─► compare() ─► Drift ─► DriftMonitor ┼─► backed off: another program overwrites repairs
//! Evidence: online CPUs,        │     (pure)                           └─► not repairable: a CPU is offline, or a cgroup
//!   cpu_manager_state ──────────┘                                          above kubepods allows fewer CPUs
//! ```
//!
//! The usual cause is the kubelet's static CPU manager: it overwrites the CPUs of shared-pool containers at every
//! reconciliation. Two programs that keep overwriting each other help no container, so the pause between repairs of one
//! container doubles each time they are undone, and a [`RepairConflict`] is reported.

use std::fmt;

use pinfold_cgroup::{CgroupState, CpuTimeLimit, GroupPath, NarrowAncestor};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{ContainerId, ContainerName, PodUid};
use pinfold_core::node_set::NodeSet;
use pinfold_kube::state::CpuManagerState;

use crate::allowance::Allowance;

mod compare;
mod evidence;
mod monitor;
mod observe;
mod repair_backoff;

pub use compare::compare;
pub use monitor::{
    DriftCounters, DriftMonitor, DriftScan, NoRuntime, RepairOutcome, RuntimeUpdates,
};
pub use repair_backoff::{RepairConflict, RepairLimits};

/// Identifies a running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRef {
    /// Container id of the container runtime.
    pub id: ContainerId,
    /// UID of the pod.
    pub pod: PodUid,
    /// Container name in the pod spec.
    pub name: ContainerName,
}

impl fmt::Display for ContainerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {} of pod {}", self.name, self.pod)
    }
}

/// A running container and the resources its cgroup must allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedContainer {
    /// The container.
    pub container: ContainerRef,
    /// Its cgroup.
    pub group: GroupPath,
    /// CPUs, memory nodes and CPU quota that the agent assigned.
    pub expected: Allowance,
    /// CPUs, memory nodes and CPU quota with which the runtime created the container.
    pub spec: RuntimeSpec,
}

/// Resources in the specification with which the runtime created a container; `None` where it sets none. If a cgroup
/// has these values again, the runtime wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeSpec {
    /// `cpuset.cpus`.
    pub cpus: Option<CpuSet>,
    /// `cpuset.mems`.
    pub mems: Option<NodeSet>,
    /// CPU quota and period.
    pub cpu_time: Option<CpuTimeLimit>,
}

/// The values read from a container's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCgroup {
    /// CPUs, memory nodes and quota of the container's cgroup.
    pub state: CgroupState,
    /// CPU quota of the pod's cgroup, which limits all its containers together.
    pub pod_cpu_time: Option<CpuTimeLimit>,
    /// The first ancestor that allows fewer CPUs than the allowance has.
    pub narrow_ancestor: Option<NarrowAncestor>,
}

/// Facts about the node from which the cause of a drift is derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Online CPUs.
    pub online: CpuSet,
    /// The kubelet's `cpu_manager_state`; `None` if the file is missing or unreadable.
    pub kubelet: Option<CpuManagerState>,
}

/// A container whose cgroup differs from its allowance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The container.
    pub container: ContainerRef,
    /// What the agent assigned.
    pub expected: Allowance,
    /// What the cgroup has.
    pub found: ObservedCgroup,
    /// The probable cause.
    pub cause: DriftCause,
}

/// The probable cause of a drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriftCause {
    /// The kubelet wrote the state of its own CPU manager.
    Kubelet,
    /// The runtime wrote the values of the container's specification.
    Runtime,
    /// A CPU went offline and the kernel removed it from the cgroup.
    CpuOffline,
    /// An ancestor of the cgroup allows fewer CPUs.
    NarrowAncestor,
    /// The kubelet, or systemd for it, set the pod's CPU limit again.
    PodLimit,
    /// Another program.
    Other,
}

impl DriftCause {
    /// All causes, so that every counter is exported from the start.
    pub const ALL: [DriftCause; 6] = [
        DriftCause::Kubelet,
        DriftCause::Runtime,
        DriftCause::CpuOffline,
        DriftCause::NarrowAncestor,
        DriftCause::PodLimit,
        DriftCause::Other,
    ];

    /// The value of the metric label `cause`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            DriftCause::Kubelet => "kubelet",
            DriftCause::Runtime => "runtime",
            DriftCause::CpuOffline => "cpu-offline",
            DriftCause::NarrowAncestor => "narrow-ancestor",
            DriftCause::PodLimit => "pod-limit",
            DriftCause::Other => "other",
        }
    }
}

impl fmt::Display for DriftCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriftCause::Kubelet => "the kubelet wrote the state of its CPU manager",
            DriftCause::Runtime => "the runtime wrote the container's specification",
            DriftCause::CpuOffline => "a CPU went offline",
            DriftCause::NarrowAncestor => "a control group above it allows fewer CPUs",
            DriftCause::PodLimit => "the kubelet or systemd set the pod's CPU limit again",
            DriftCause::Other => "another program changed it",
        })
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (expected, found) = (&self.expected, &self.found.state);
        write!(f, "{}:", self.container)?;
        let mut mark = "";
        if compare::cpus_differ(expected, found) {
            let (expected, found) = (&expected.cpus, &found.effective_cpus);
            write!(f, " CPUs {found} instead of {expected}")?;
            mark = ",";
        }
        if compare::mems_differ(expected, found) {
            let (expected, found) = (expected.mems, found.effective_mems);
            write!(f, "{mark} memory of nodes {found} instead of {expected}")?;
            mark = ",";
        }
        if compare::is_throttled(expected, &self.found) {
            write!(f, "{mark} a CPU quota instead of none")?;
        }
        match (&self.found.narrow_ancestor, self.cause) {
            (Some(NarrowAncestor { path, allows, .. }), DriftCause::NarrowAncestor) => {
                let lacks = &expected.cpus - allows;
                write!(
                    f,
                    "; control group /{path} allows CPUs {allows} only: widen it, or reserve CPUs {lacks} for the system"
                )
            }
            (_, cause) => write!(f, "; {cause}"),
        }
    }
}

impl Drift {
    /// Whether the container may use other CPUs than those of its allowance.
    #[must_use]
    pub fn has_other_cpus(&self) -> bool {
        compare::cpus_differ(&self.expected, &self.found.state)
    }
}

#[cfg(test)]
mod tests;
