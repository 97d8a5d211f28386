//! Where the agent is: the machine, the rules it is run by, its name.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Rules;
use pinfold_core::machine::Machine;
use pinfold_core::settings::Settings;
use pinfold_kube::kubelet_config::KubeletSettings;

use super::DaemonError;
use crate::config::{AgentConfig, NodeDialect};

/// The machine, with all its memory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) machine: Arc<Machine>,
    /// Bytes, for rules that state percentages.
    pub(super) memory: u64,
}

impl Place {
    /// This machine, as it is now.
    pub(super) fn look() -> Result<Self, DaemonError> {
        let unreadable = |error: &dyn std::fmt::Display| DaemonError::Machine(error.to_string());
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

    /// The rules that a configuration means here.
    pub(super) fn rules(&self, config: &AgentConfig) -> Result<Arc<Rules>, DaemonError> {
        let settings = match config.rules_file() {
            None => Settings::built_in(&self.machine, Fidelity::Sound),
            Some(path) => {
                let bytes = read_file(&path)?;
                self.settings(&path.to_string_lossy(), &bytes)?
            }
        };
        self.rules_of(settings, config.dialect)
    }

    /// The settings that a KubeletConfiguration means here.
    pub(super) fn settings(&self, file: &str, bytes: &[u8]) -> Result<Settings, DaemonError> {
        let read = KubeletSettings::read(file, bytes, Fidelity::Sound);
        let read = read.map_err(DaemonError::Rules)?;
        Ok(read.value.settings(self.memory, Fidelity::Sound))
    }

    /// The rules of these settings. Koordinator has its own for who gets CPUs; the ledger only keeps them.
    pub(super) fn rules_of(
        &self,
        mut settings: Settings,
        dialect: NodeDialect,
    ) -> Result<Arc<Rules>, DaemonError> {
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
            let plain = Settings::default();
            settings.topology_policy = plain.topology_policy;
            settings.topology_options.clear();
            settings.memory_policy = plain.memory_policy;
            settings.reserved_memory.clear();
        }
        Ok(Arc::new(Rules::new(self.machine.clone(), settings)?))
    }
}

/// What the node is called: as configured, as a pod is told by its specification, or as the host.
pub(super) fn name(config: &AgentConfig) -> String {
    let told = || {
        std::env::var(NODE_NAME)
            .ok()
            .filter(|name| !name.is_empty())
    };
    let host = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = config.node_name.clone().or_else(told).unwrap_or_else(host);
    name.trim().to_ascii_lowercase()
}

/// The variable in which a pod is told the name of its node: inside of it the name of the host is the pod's own.
const NODE_NAME: &str = "NODE_NAME";

/// No configuration is larger.
const LARGEST_FILE: u64 = 1 << 20;

/// A file that people write.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, DaemonError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| {
        file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > LARGEST_FILE {
            true => Err(io::Error::other("it is larger than 1 MiB")),
            false => Ok(()),
        }
    });
    read.map_err(|error| DaemonError::File {
        path: path.to_owned(),
        error,
    })?;
    Ok(bytes)
}

/// The CPUs that are online now, in the kernel's words.
pub(super) fn online() -> String {
    fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default()
}
