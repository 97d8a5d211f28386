//! [`Decision`]: whether a pod is admitted and what it is assigned, with the facts behind it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuSet;
use crate::device::DevicesByResource;
use crate::explanation::Explanation;
use crate::hint::Hint;
use crate::memory::MemoryBlock;
use crate::name::{ContainerName, PodUid};

/// The admission decision about one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The pod.
    pub pod: PodUid,
    /// Admitted or rejected.
    pub result: AdmissionResult,
    /// The facts behind the result.
    pub explanation: Explanation,
}

impl Decision {
    /// Whether the pod was admitted.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        matches!(self.result, AdmissionResult::Admitted(_))
    }

    /// The assignment; `None` if the pod was rejected.
    #[must_use]
    pub fn assignment(&self) -> Option<&Assignment> {
        match &self.result {
            AdmissionResult::Admitted(assignment) => Some(assignment),
            AdmissionResult::Rejected(_) => None,
        }
    }

    /// The rejection; `None` if the pod was admitted.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        match &self.result {
            AdmissionResult::Admitted(_) => None,
            AdmissionResult::Rejected(rejection) => Some(rejection),
        }
    }
}

/// Admitted with an assignment, or rejected with a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionResult {
    /// The pod may run with this assignment.
    Admitted(Assignment),
    /// The pod may not run on this node.
    Rejected(Rejection),
}

/// The exclusive CPUs, memory and devices of every container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Init containers, then app containers, in the order of the pod.
    pub containers: Vec<ContainerAssignment>,
}

/// The exclusive CPUs, memory and devices of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerAssignment {
    /// The container.
    pub name: ContainerName,
    /// The merged hint that its resources were aligned to.
    pub affinity: Hint,
    /// Its exclusive CPUs; `None` if it runs in the shared pool.
    pub cpus: Option<CpuSet>,
    /// Its memory and hugepages; `None` if they are not managed.
    pub memory: Option<Vec<MemoryBlock>>,
    /// Its devices.
    pub devices: DevicesByResource,
}

/// Why a pod was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The reason as the pod's status shows it.
    pub reason: RejectionReason,
    /// The message as the pod's status shows it.
    pub message: String,
    /// The container that failed; `None` if it was the pod as a whole.
    pub container: Option<ContainerName>,
    /// The manager whose allocation failed; `None` if the topology policy rejected the merged hint.
    pub manager: Option<ResourceManager>,
}

/// The kubelet's rejection reasons, as a pod's status shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RejectionReason {
    /// The resources cannot be aligned as the topology policy requires.
    TopologyAffinityError,
    /// The CPU request does not fill whole cores, or too few whole cores are free.
    SMTAlignmentError,
    /// The exclusive containers leave nothing for the pod's shared pool.
    EmptyPodSharedPoolError,
    /// The allocation of a manager failed.
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

/// The kubelet's resource managers, in the order in which they give hints and allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceManager {
    /// Allocates devices of device plugins.
    Device,
    /// Allocates exclusive CPUs.
    Cpu,
    /// Allocates memory and hugepages.
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
