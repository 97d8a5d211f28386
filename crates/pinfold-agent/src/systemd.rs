//! systemd as the owner of slices and scopes: sets properties of its units over the D-Bus system bus.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_cgroup::CpuTimeLimit;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::node_set::{NodeId, NodeSet};

mod bus;
mod wire;

use wire::{Call, Property, PropertyValue};

/// A program that owns the cgroups of units: systemd.
pub trait UnitManager: fmt::Debug + Send + Sync {
    /// Sets properties of a unit until the next boot.
    ///
    /// # Errors
    /// If the unit does not exist, or the manager cannot be reached or rejects the properties.
    fn set_properties(&self, unit: &str, properties: &UnitProperties) -> Result<(), SystemdError>;
}

/// Properties of a unit to set; `None` leaves one unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitProperties {
    /// `AllowedCPUs`.
    pub allowed_cpus: Option<CpuSet>,
    /// `AllowedMemoryNodes`.
    pub allowed_memory_nodes: Option<NodeSet>,
    /// `CPUQuotaPerSecUSec`.
    pub cpu_quota: Option<CpuTimeLimit>,
}

/// Errors of setting properties of a unit.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// The unit does not exist: its container or pod ended.
    #[error("systemd has no unit {0}")]
    NoSuchUnit(String),
    /// systemd rejected the call.
    #[error("systemd rejected properties of {unit}: {error}")]
    Rejected {
        /// The unit.
        unit: String,
        /// Name and message of the D-Bus error.
        error: String,
    },
    /// The bus cannot be reached, or did not answer in time.
    #[error("systemd cannot be reached at {}: {error}; if the agent runs in a container, mount the socket's directory", socket.display())]
    Bus {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        error: String,
    },
}

/// systemd, reached over the D-Bus system bus. Every call has its own connection: calls are rare, and the bus may restart.
#[derive(Debug)]
pub struct SystemBus {
    socket: PathBuf,
    timeout: Duration,
}

/// Time for one call, with the connection.
const TIMEOUT: Duration = Duration::from_secs(2);

impl SystemBus {
    /// Connects to this socket for every call.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            timeout: TIMEOUT,
        }
    }
}

impl UnitManager for SystemBus {
    fn set_properties(&self, unit: &str, properties: &UnitProperties) -> Result<(), SystemdError> {
        let properties = properties.encode();
        let call = Call::SetUnitProperties {
            unit,
            properties: &properties,
        };
        let answer = bus::call(&self.socket, &call, self.timeout);
        let answer = answer.map_err(|error| SystemdError::Bus {
            socket: self.socket.clone(),
            error: error.to_string(),
        })?;
        match answer {
            Ok(()) => Ok(()),
            Err(error) if error.name == "org.freedesktop.systemd1.NoSuchUnit" => {
                Err(SystemdError::NoSuchUnit(unit.to_owned()))
            }
            Err(error) => Err(SystemdError::Rejected {
                unit: unit.to_owned(),
                error: format!("{}: {}", error.name, error.message),
            }),
        }
    }
}

impl UnitProperties {
    fn encode(&self) -> Vec<Property> {
        let cpus = self.allowed_cpus.as_ref();
        let cpus = cpus.map(|cpus| ("AllowedCPUs", mask(cpus.iter().map(CpuId::index))));
        let nodes = self.allowed_memory_nodes;
        let nodes =
            nodes.map(|nodes| ("AllowedMemoryNodes", mask(nodes.iter().map(NodeId::index))));
        let quota = self.cpu_quota.map(|limit| {
            let value = PropertyValue::Number(micros_per_second(limit));
            ("CPUQuotaPerSecUSec", value)
        });
        let all = [cpus, nodes, quota].into_iter().flatten();
        all.map(|(name, value)| Property { name, value }).collect()
    }
}

/// CPUs or NUMA nodes as systemd takes them: bit 0 of the first byte is number 0.
fn mask(numbers: impl Iterator<Item = usize>) -> PropertyValue {
    let mut bytes = Vec::new();
    for number in numbers {
        let at = number / 8;
        if bytes.len() <= at {
            bytes.resize(at + 1, 0);
        }
        bytes[at] |= 1 << (number % 8);
    }
    PropertyValue::Bytes(bytes)
}

/// CPU time per second in microseconds; systemd's infinity for no limit.
fn micros_per_second(limit: CpuTimeLimit) -> u64 {
    const SECOND: u64 = 1_000_000;
    let share = |quota: u64| quota.saturating_mul(SECOND) / limit.period.max(1);
    limit.quota.map_or(u64::MAX, share)
}

#[cfg(test)]
mod tests;
