//! [`Decision`]: the answer to "may this pod run here, and on what?", with the facts behind it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuSet;
use crate::device::DevicesByResource;
use crate::explanation::Explanation;
use crate::hint::Hint;
use crate::memory::MemoryBlock;
use crate::name::{ContainerName, PodUid};

/// What was decided about one pod, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The pod.
    pub pod: PodUid,
    /// Yes or no.
    pub result: AdmissionResult,
    /// The facts it rests on.
    pub explanation: Explanation,
}

impl Decision {
    /// Whether the pod may run.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        matches!(self.result, AdmissionResult::Admitted(_))
    }

    /// What the pod got; `None` if it was rejected.
    #[must_use]
    pub fn assignment(&self) -> Option<&Assignment> {
        match &self.result {
            AdmissionResult::Admitted(assignment) => Some(assignment),
            AdmissionResult::Rejected(_) => None,
        }
    }

    /// Why the pod was rejected; `None` if it was not.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        match &self.result {
            AdmissionResult::Admitted(_) => None,
            AdmissionResult::Rejected(rejection) => Some(rejection),
        }
    }
}

/// Yes, with what the pod got, or no, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionResult {
    /// The pod may run on this.
    Admitted(Assignment),
    /// The pod may not run here.
    Rejected(Rejection),
}

/// What every container of a pod got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Init containers, then app containers, in the order of the pod.
    pub containers: Vec<ContainerAssignment>,
}

/// What one container got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerAssignment {
    /// The container.
    pub name: ContainerName,
    /// The placement all its resources were aligned to.
    pub affinity: Hint,
    /// Its exclusive CPUs; `None` if it runs in the shared pool.
    pub cpus: Option<CpuSet>,
    /// Its memory and hugepages; `None` if they are not managed.
    pub memory: Option<Vec<MemoryBlock>>,
    /// Its devices.
    pub devices: DevicesByResource,
}

/// Why a pod may not run here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The reason as the pod's status shows it.
    pub reason: RejectionReason,
    /// The kubelet's words.
    pub message: String,
    /// The container that could not be served; `None` if it was the pod as a whole.
    pub container: Option<ContainerName>,
    /// The manager that could not serve it; `None` if the managers could not agree.
    pub manager: Option<ResourceManager>,
}

/// The kubelet's reasons, as a pod's status shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RejectionReason {
    /// The resources cannot be aligned as the policy demands.
    TopologyAffinityError,
    /// The request does not fill whole cores, or too few whole cores are free.
    SMTAlignmentError,
    /// Exclusive containers leave nothing for the pod's others.
    EmptyPodSharedPoolError,
    /// A manager could not hand out what was asked.
    UnexpectedAdmissionError,
}

impl RejectionReason {
    /// The text in the pod's status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RejectionReason::TopologyAffinityError => "TopologyAffinityError",
            RejectionReason::SMTAlignmentError => "SMTAlignmentError",
            RejectionReason::EmptyPodSharedPoolError => "EmptyPodSharedPoolError",
            RejectionReason::UnexpectedAdmissionError => "UnexpectedAdmissionError",
        }
    }
}

impl fmt::Display for RejectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The managers, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceManager {
    /// Hands out devices.
    Device,
    /// Hands out exclusive CPUs.
    Cpu,
    /// Books memory and hugepages.
    Memory,
}

impl ResourceManager {
    /// All managers in the order in which the kubelet registers them.
    pub const ALL: [ResourceManager; 3] = [
        ResourceManager::Device,
        ResourceManager::Cpu,
        ResourceManager::Memory,
    ];
}
