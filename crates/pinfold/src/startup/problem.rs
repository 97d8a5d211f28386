//! The kubelet's start-up errors: what is wrong with the configuration, and what to change.

use pinfold_core::cpu::{CpuConfigError, CpuOptionError, CpuPolicyError};
use pinfold_core::ledger::SettingsError;
use pinfold_core::machine::Machine;
use pinfold_core::memory::{MemorySettingsError, ReservationError};
use pinfold_core::settings::Settings;
use pinfold_render::text::count;

use super::StartProblem;

/// Describes an error with the values of this machine and configuration.
pub(super) fn describe(
    error: &SettingsError,
    machine: &Machine,
    settings: &Settings,
) -> StartProblem {
    let (problem, fix) = match error {
        SettingsError::TooManyNodes { most, found } => (
            format!(
                "the machine has {found} NUMA nodes, more than the {most} the topology manager accepts"
            ),
            format!(
                "set topologyManagerPolicyOptions: {{max-allowable-numa-nodes: \"{found}\"}}; a \
                 kubelet's own merge can then take minutes per pod"
            ),
        ),
        SettingsError::Cpu(error) => cpu(error, machine, settings),
        SettingsError::Memory(error) => memory(error, machine),
        SettingsError::TopologyOption(_) => (
            "an option of the topology manager cannot be used".to_owned(),
            "correct or remove it in topologyManagerPolicyOptions".to_owned(),
        ),
        SettingsError::Policy(_) | SettingsError::Scope(_) => (
            "the topology manager does not know this policy or scope".to_owned(),
            "use none, best-effort, restricted or single-numa-node, and container or pod"
                .to_owned(),
        ),
    };
    StartProblem {
        problem,
        fix,
        message: error.to_string(),
    }
}

fn cpu(error: &CpuConfigError, machine: &Machine, settings: &Settings) -> (String, String) {
    match error {
        CpuConfigError::NoneHasOptions(_) => (
            "cpuManagerPolicyOptions are set, but cpuManagerPolicy is none, which takes no options"
                .to_owned(),
            "set cpuManagerPolicy: static, or remove the options".to_owned(),
        ),
        CpuConfigError::NoReservation | CpuConfigError::ZeroReservation => (
            "the static CPU policy needs at least one CPU reserved for the system".to_owned(),
            "set reservedSystemCPUs: \"0\", or kubeReserved: {cpu: \"1\"}".to_owned(),
        ),
        CpuConfigError::Static(CpuPolicyError::UnknownReserved(id)) => (
            format!("CPU {id} is to be reserved, but the machine does not have it"),
            format!("reservedSystemCPUs must be among {}", machine.online()),
        ),
        CpuConfigError::Static(CpuPolicyError::ReservedSize {
            reserved,
            count: asked,
        }) => (
            format!(
                "{} to be reserved, but {} can be",
                count(*asked, "CPU is", "CPUs are"),
                count(
                    usize::try_from(reserved.len()).unwrap_or(usize::MAX),
                    "CPU",
                    "CPUs"
                )
            ),
            "reserve less CPU in kubeReserved and systemReserved than the machine has".to_owned(),
        ),
        CpuConfigError::Static(CpuPolicyError::Reserving(_)) => (
            "the CPUs to reserve cannot be chosen".to_owned(),
            "name them in reservedSystemCPUs".to_owned(),
        ),
        CpuConfigError::Static(CpuPolicyError::Options(error)) => cpu_option(error, settings),
    }
}

fn cpu_option(error: &CpuOptionError, settings: &Settings) -> (String, String) {
    match error {
        CpuOptionError::AlphaOff { name } => (
            format!("the CPU option {name} is alpha, and alpha options are switched off"),
            "set featureGates: {CPUManagerPolicyAlphaOptions: true}, or remove the option"
                .to_owned(),
        ),
        CpuOptionError::BetaOff { name } => (
            format!("the CPU option {name} is beta, and beta options are switched off"),
            "set featureGates: {CPUManagerPolicyBetaOptions: true}, or remove the option"
                .to_owned(),
        ),
        CpuOptionError::Contradiction(one, other) => (
            format!("the CPU options {one} and {other} contradict each other"),
            "remove one of them".to_owned(),
        ),
        CpuOptionError::AlignBySocketOnOneNode => (
            format!(
                "the CPU option align-by-socket contradicts the topology policy {}",
                settings.topology_policy
            ),
            "remove the option, or use the policy restricted or best-effort".to_owned(),
        ),
        _ => (
            "an option of the CPU manager cannot be used on this machine".to_owned(),
            "correct or remove it in cpuManagerPolicyOptions".to_owned(),
        ),
    }
}

fn memory(error: &MemorySettingsError, machine: &Machine) -> (String, String) {
    let error = match error {
        MemorySettingsError::OtherPlatform(name) => {
            return (
                format!("the memory policy {name} exists on Windows only"),
                "use None or Static".to_owned(),
            );
        }
        MemorySettingsError::Unknown(policy) => {
            return (
                format!(
                    "this version of the kubelet has no memory policy {}",
                    policy.name
                ),
                "use None or Static".to_owned(),
            );
        }
        MemorySettingsError::Reservation(error) => error,
    };
    match error {
        ReservationError::NoSuchNode(node) => (
            format!("reservedMemory names NUMA node {node}, which the machine does not have"),
            format!("use NUMA nodes among {}", machine.node_ids()),
        ),
        ReservationError::NotEqual {
            resource,
            on_numa_nodes,
            on_node,
        } => (
            format!(
                "reservedMemory adds up to {on_numa_nodes} of {resource}, but kubeReserved, \
                 systemReserved and evictionHard together reserve {on_node}"
            ),
            format!("make the {resource} amounts of reservedMemory add up to exactly {on_node}"),
        ),
        ReservationError::NotWholeBytes(resource) => (
            format!("an amount of {resource} in reservedMemory is not a whole number of bytes"),
            "write it in Ki, Mi or Gi without a fraction".to_owned(),
        ),
        ReservationError::NoMemory => (
            "the static memory policy needs memory reserved for the system".to_owned(),
            "set reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}] and kubeReserved to match"
                .to_owned(),
        ),
    }
}
