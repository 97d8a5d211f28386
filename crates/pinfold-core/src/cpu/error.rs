//! Why the CPU manager could not be set up, started or served a request.

use serde::Serialize;

use super::options::CpuOptionError;
use super::take::TakeError;
use crate::cpu_set::{CpuList, CpuSet};
use crate::name::{ContainerName, PodUid};

/// Why a static policy cannot be made of the settings. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuPolicyError {
    /// The options do not fit.
    #[error(transparent)]
    Options(#[from] CpuOptionError),
    /// The reserved CPUs are not as many as the reservation says.
    #[error(
        "[cpumanager] unable to reserve the required amount of CPUs (size of {reserved} did not equal {count})"
    )]
    ReservedSize {
        /// The CPUs, named or chosen.
        reserved: CpuList,
        /// How many there should be.
        count: usize,
    },
    /// A reserved CPU that the machine does not have.
    #[error(
        "[cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: {0}"
    )]
    UnknownReserved(i64),
    /// Choosing the reserved CPUs has no end in the original.
    #[error("[cpumanager] unable to choose the reserved CPUs: {0}")]
    Reserving(TakeError),
}

/// Why a recorded state cannot be taken over. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// A container's CPUs are in the shared pool too.
    #[error(
        "pod: {pod}, container: {container} cpuset: \"{cpus}\" overlaps with default cpuset \"{shared}\""
    )]
    Overlap {
        /// Whose.
        pod: PodUid,
        /// Which.
        container: ContainerName,
        /// Its CPUs.
        cpus: CpuSet,
        /// The shared pool.
        shared: CpuSet,
    },
    /// The machine has other CPUs than the state knows.
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

/// Why a pod or container got no CPUs. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum CpuError {
    /// Whole cores only, and the request does not fill them.
    #[error(
        "SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}"
    )]
    NotWholeCores {
        /// CPUs asked for.
        requested: usize,
        /// Threads per core.
        per_core: usize,
    },
    /// Whole cores only, and too few are free.
    #[error(
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, requested CPUs = {requested}, CPUs per core = {per_core}"
    )]
    TooFewWholeCores {
        /// CPUs asked for.
        requested: usize,
        /// Threads per core.
        per_core: usize,
        /// CPUs of whole free cores.
        available: usize,
    },
    /// Exclusive containers use up the pod's CPUs before an init container without CPUs of its own runs.
    #[error("pod rejected, pod has shared init containers but no cpus available for them")]
    NothingLeftForInit,
    /// Exclusive containers use up the pod's CPUs, and others have none of their own.
    #[error(
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
    )]
    NothingLeftToShare,
    /// The CPUs are not there.
    #[error(transparent)]
    Take(#[from] TakeError),
}

impl CpuError {
    /// The reason a rejected pod shows in its status.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            CpuError::NotWholeCores { .. } | CpuError::TooFewWholeCores { .. } => {
                "SMTAlignmentError"
            }
            CpuError::NothingLeftForInit | CpuError::NothingLeftToShare => {
                "EmptyPodSharedPoolError"
            }
            CpuError::Take(_) => "UnexpectedAdmissionError",
        }
    }

    /// The message a rejected pod shows in its status. Mirrors `GetPodAdmitResult`.
    #[must_use]
    pub fn status_message(&self) -> String {
        match self {
            CpuError::Take(error) => format!("Allocate failed due to {error}, which is unexpected"),
            other => other.to_string(),
        }
    }
}

/// Why a CPU manager cannot be made of a configuration. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuConfigError {
    /// No such policy.
    #[error("unknown policy: \"{0}\"")]
    UnknownPolicy(String),
    /// The policy `none` has no options.
    #[error("new none policy error: None policy: received unsupported options={0}")]
    NoneHasOptions(String),
    /// The static policy without any reservation.
    #[error("[cpumanager] unable to determine reserved CPU resources for static policy")]
    NoReservation,
    /// The static policy with a reservation of zero: the shared pool could run dry.
    #[error(
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    )]
    ZeroReservation,
    /// The static policy rejects its settings.
    #[error("new static policy error: {0}")]
    Static(#[from] CpuPolicyError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unexpected_error_is_wrapped_in_the_status() {
        let smt = CpuError::NotWholeCores {
            requested: 3,
            per_core: 2,
        };
        assert_eq!(smt.reason(), "SMTAlignmentError");
        assert_eq!(smt.status_message(), smt.to_string());
        let short = CpuError::from(TakeError::NotEnough {
            requested: 4,
            available: 2,
        });
        assert_eq!(short.reason(), "UnexpectedAdmissionError");
        assert_eq!(
            short.status_message(),
            "Allocate failed due to not enough cpus available to satisfy request: \
             requested=4, available=2, which is unexpected"
        );
    }
}
