//! The local host: its machine, the ledger rules for it, and the node name.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Rules;
use pinfold_core::machine::Machine;
use pinfold_core::settings::Settings;
use pinfold_kube::kubelet_config::KubeletSettings;

use super::AgentError;
use crate::config::{AgentConfig, NodeDialect};

/// The machine that the agent runs on.
#[derive(Clone, Debug)]
pub(super) struct LocalMachine {
    pub(super) machine: Arc<Machine>,
    /// Total memory in bytes, for settings in percent.
    pub(super) memory: u64,
}

impl LocalMachine {
    /// Reads the machine from sysfs.
    pub(super) fn detect() -> Result<Self, AgentError> {
        let unreadable = |error: &dyn std::fmt::Display| AgentError::Machine(error.to_string());
        let hardware = pinfold_hardware::from_sysfs(Path::new("/"));
        let hardware = hardware.map_err(|error| unreadable(&error))?;
        let (machine, _) = hardware
            .machine_within_reach()
            .map_err(|error| unreadable(&error))?;
        Ok(Self {
            machine: Arc::new(machine),
            memory: hardware.memory,
        })
    }

    /// The ledger rules of a configuration on this machine.
    pub(super) fn rules(&self, config: &AgentConfig) -> Result<Arc<Rules>, AgentError> {
        let settings = match config.rules_file() {
            None => Settings::built_in(&self.machine, Fidelity::Sound),
            Some(path) => {
                let bytes = read_file(&path)?;
                self.settings(&path.to_string_lossy(), &bytes)?
            }
        };
        self.rules_of(settings, config.dialect)
    }

    /// The settings of a KubeletConfiguration on this machine.
    pub(super) fn settings(&self, file: &str, bytes: &[u8]) -> Result<Settings, AgentError> {
        let read = KubeletSettings::read(file, bytes, Fidelity::Sound);
        let read = read.map_err(AgentError::Rules)?;
        Ok(read.value.settings(self.memory, Fidelity::Sound))
    }

    /// The ledger rules of these settings. Under Koordinator's rules the ledger only records CPUs, so the kubelet's managers
    /// are turned off.
    pub(super) fn rules_of(
        &self,
        mut settings: Settings,
        dialect: NodeDialect,
    ) -> Result<Arc<Rules>, AgentError> {
        if dialect == NodeDialect::Koordinator {
            let built_in = Settings::built_in(&self.machine, Fidelity::Sound);
            let reserves_none = settings
                .reserved_cpu
                .is_none_or(|cpu| cpu.milli_value() == 0);
            if reserves_none && settings.reserved_cpus.is_none() {
                settings.reserved_cpu = built_in.reserved_cpu;
            }
            settings.cpu_policy = built_in.cpu_policy;
            settings.cpu_options.clear();
            let defaults = Settings::default();
            settings.topology_policy = defaults.topology_policy;
            settings.topology_options.clear();
            settings.memory_policy = defaults.memory_policy;
            settings.reserved_memory.clear();
        }
        Ok(Arc::new(Rules::new(self.machine.clone(), settings)?))
    }
}

/// The node name: from the configuration, the variable `NODE_NAME`, or the host name.
pub(super) fn node_name(config: &AgentConfig) -> String {
    let environment = || {
        std::env::var(NODE_NAME)
            .ok()
            .filter(|name| !name.is_empty())
    };
    let host = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = config
        .node_name
        .clone()
        .or_else(environment)
        .unwrap_or_else(host);
    name.trim().to_ascii_lowercase()
}

/// Environment variable with the node name. The agent's pod sets it, because the host name in a pod is the pod's.
const NODE_NAME: &str = "NODE_NAME";

/// Maximum size of a configuration file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a configuration file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, AgentError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| {
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_FILE_BYTES {
            true => Err(io::Error::other("the file is larger than 1 MiB")),
            false => Ok(()),
        }
    });
    read.map_err(|error| AgentError::File {
        path: path.to_owned(),
        error,
    })?;
    Ok(bytes)
}

/// The online CPUs, in the kernel's list format.
pub(super) fn online_cpus() -> String {
    fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default()
}
