//! Errors of the CPU manager: configuration, saved state, allocation.

use serde::Serialize;

use super::options::CpuOptionError;
use super::take::TakeError;
use crate::cpu_set::{CpuList, CpuSet};
use crate::decision::RejectionReason;
use crate::name::{ContainerName, PodUid};

/// Settings that the static policy does not accept. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuPolicyError {
    /// Invalid options.
    #[error(transparent)]
    Options(#[from] CpuOptionError),
    /// The number of reserved CPUs differs from the reservation.
    #[error(
        "[cpumanager] unable to reserve the required amount of CPUs (size of {reserved} did not equal {count})"
    )]
    ReservedSize {
        /// The CPUs, configured or chosen.
        reserved: CpuList,
        /// The number of CPUs in the reservation.
        count: usize,
    },
    /// A reserved CPU that the machine does not have.
    #[error(
        "[cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: {0}"
    )]
    UnknownReserved(i64),
    /// The kubelet never returns from choosing the reserved CPUs.
    #[error("[cpumanager] unable to choose the reserved CPUs: {0}")]
    Reserving(TakeError),
}

/// A saved state that the static policy does not accept. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuStateError {
    /// Containers hold CPUs, but there is no shared pool.
    #[error("default cpuset cannot be empty")]
    NoSharedPool,
    /// The shared pool lacks reserved CPUs.
    #[error("not all reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{shared}\"")]
    ReservedMissing {
        /// The reserved CPUs.
        reserved: CpuSet,
        /// The shared pool.
        shared: CpuSet,
    },
    /// The shared pool has CPUs that are reserved strictly.
    #[error(
        "some of strictly reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{shared}\""
    )]
    ReservedShared {
        /// The reserved CPUs in the shared pool.
        reserved: CpuSet,
        /// The shared pool.
        shared: CpuSet,
    },
    /// A container's exclusive CPUs are in the shared pool as well.
    #[error(
        "pod: {pod}, container: {container} cpuset: \"{cpus}\" overlaps with default cpuset \"{shared}\""
    )]
    Overlap {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// Its CPUs.
        cpus: CpuSet,
        /// The shared pool.
        shared: CpuSet,
    },
    /// The CPUs of the machine differ from those in the state.
    #[error(
        "current set of available CPUs \"{machine}\" doesn't match with CPUs in state \"{known}\""
    )]
    OtherMachine {
        /// The machine's CPUs.
        machine: CpuSet,
        /// The CPUs in the state.
        known: CpuSet,
    },
}

/// Why a pod or container cannot be assigned CPUs. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum CpuError {
    /// `full-pcpus-only` is on, and the request does not fill whole cores.
    #[error(
        "SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}"
    )]
    NotWholeCores {
        /// The requested number of CPUs.
        requested: usize,
        /// Threads per core.
        per_core: usize,
    },
    /// `full-pcpus-only` is on, and too few whole cores are free.
    #[error(
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, requested CPUs = {requested}, CPUs per core = {per_core}"
    )]
    TooFewWholeCores {
        /// The requested number of CPUs.
        requested: usize,
        /// Threads per core.
        per_core: usize,
        /// The number of CPUs on whole free cores.
        available: usize,
    },
    /// Exclusive containers use up the pod's CPUs before an init container without exclusive CPUs runs.
    #[error("pod rejected, pod has shared init containers but no cpus available for them")]
    NothingLeftForInit,
    /// Exclusive containers use up the pod's CPUs, and other containers have no exclusive ones.
    #[error(
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
    )]
    NothingLeftToShare,
    /// Too few CPUs are free.
    #[error(transparent)]
    Take(#[from] TakeError),
}

impl CpuError {
    /// The reason in the status of a rejected pod.
    #[must_use]
    pub(crate) fn reason(&self) -> RejectionReason {
        match self {
            CpuError::NotWholeCores { .. } | CpuError::TooFewWholeCores { .. } => {
                RejectionReason::SMTAlignmentError
            }
            CpuError::NothingLeftForInit | CpuError::NothingLeftToShare => {
                RejectionReason::EmptyPodSharedPoolError
            }
            CpuError::Take(_) => RejectionReason::UnexpectedAdmissionError,
        }
    }
}

/// A configuration that the CPU manager does not accept. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuConfigError {
    /// Options for the policy `none`, which has none.
    #[error("new none policy error: None policy: received unsupported options={0}")]
    NoneHasOptions(String),
    /// The static policy without a reservation.
    #[error("[cpumanager] unable to determine reserved CPU resources for static policy")]
    NoReservation,
    /// The static policy with a reservation of zero: the shared pool could become empty.
    #[error(
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    )]
    ZeroReservation,
    /// Invalid settings of the static policy.
    #[error("new static policy error: {0}")]
    Static(#[from] CpuPolicyError),
}
