//! Drift: containers whose control groups are not what they should be, who probably did it, and the repair.
//!
//! ```text
//! control groups ─► Found ─┐                              ┌─► repaired
//! Watched: what should be ─┼─► compare() ─► Drift ─► Watch┼─► held back: somebody fights us for it
//! Evidence: who else writes┘    (pure)               ▲    └─► beyond repair: the CPU is offline
//!                                               the time
//! ```
//!
//! The kubelet's static CPU manager is the usual culprit: it overwrites containers of the shared pool at every
//! reconciliation. Two writers that put each other right forever help nobody, so repairs of one container become rarer
//! the more often they are undone, and the [`Fight`] is told.

use std::fmt;

use pinfold_cgroup::{CgroupState, CpuTimeLimit, GroupPath};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{ContainerId, ContainerName, PodUid};
use pinfold_core::node_set::NodeSet;
use pinfold_kube::state::CpuManagerState;

use crate::allowance::Allowance;

mod compare;
mod enforce;
mod evidence;
mod fights;
mod watch;

pub use compare::compare;
pub use enforce::enforce;
pub use fights::{Fight, Patience};
pub use watch::{Outcome, Round, Tally, Watch};

/// A running container, by all its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The runtime's id for it.
    pub id: ContainerId,
    /// Its pod.
    pub pod: PodUid,
    /// Its name in the pod.
    pub container: ContainerName,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {} of pod {}", self.container, self.pod)
    }
}

/// A running container and what it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Which.
    pub who: Who,
    /// Its control group.
    pub group: GroupPath,
    /// What it should have.
    pub expected: Allowance,
    /// What its specification asks of the runtime.
    pub spec: Spec,
}

/// What a container's specification asks of the runtime; `None` where it asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// CPUs.
    pub cpus: Option<CpuSet>,
    /// Memory nodes.
    pub mems: Option<NodeSet>,
    /// A limit on CPU time.
    pub cpu_time: Option<CpuTimeLimit>,
}

/// What a container really has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What its group allows.
    pub state: CgroupState,
    /// The limit that its pod's group puts on all of its containers together.
    pub pod_cpu_time: Option<CpuTimeLimit>,
}

/// What helps to find out who changed a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The CPUs that are online.
    pub online: CpuSet,
    /// What the kubelet's CPU manager believes; `None` if it is not known.
    pub kubelet: Option<CpuManagerState>,
}

/// A container that has something else than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which.
    pub who: Who,
    /// What it should have.
    pub expected: Allowance,
    /// What it has.
    pub found: Found,
    /// Who it probably was.
    pub culprit: Culprit,
}

/// Who probably changed a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Culprit {
    /// The kubelet: it wrote what its own managers believe.
    Kubelet,
    /// The runtime: it wrote what the container's specification says.
    Runtime,
    /// The kernel: a CPU went offline.
    CpuOffline,
    /// Somebody else.
    Other,
}

impl Culprit {
    /// Every kind, for counters that start at zero.
    pub const ALL: [Culprit; 4] = [
        Culprit::Kubelet,
        Culprit::Runtime,
        Culprit::CpuOffline,
        Culprit::Other,
    ];

    /// One word for it, for counters.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Culprit::Kubelet => "kubelet",
            Culprit::Runtime => "runtime",
            Culprit::CpuOffline => "cpu-offline",
            Culprit::Other => "other",
        }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Culprit::Kubelet => "the kubelet wrote what its own managers believe",
            Culprit::Runtime => "the runtime wrote what the container's specification says",
            Culprit::CpuOffline => "a CPU went offline",
            Culprit::Other => "somebody else changed it",
        })
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (expected, found) = (&self.expected, &self.found.state);
        write!(f, "{}:", self.who)?;
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
            write!(f, "{mark} a limit on CPU time that was lifted")?;
        }
        write!(f, "; {}", self.culprit)
    }
}

#[cfg(test)]
mod tests;
