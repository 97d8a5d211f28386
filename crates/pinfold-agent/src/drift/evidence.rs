//! Reads the [`Evidence`]: the online CPUs and the kubelet's `cpu_manager_state`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pinfold_cgroup::{CgroupError, control};
use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::state::cpu::{CpuRestore, RunningContainers};
use pinfold_kube::state::{CpuManagerState, MAX_FILE_BYTES};

use super::Evidence;

impl Evidence {
    /// Reads it from the machine. `root` is the root directory, `kubelet` the path of the kubelet's
    /// `cpu_manager_state`. A missing or truncated state file is not an error: the kubelet may be writing it.
    ///
    /// # Errors
    /// If the online CPUs cannot be read.
    pub fn gather(root: &Path, kubelet: &Path) -> Result<Self, CgroupError> {
        Ok(Self {
            online: control::read_cpus(&root.join("sys/devices/system/cpu/online"))?,
            kubelet: read_state(kubelet),
        })
    }
}

fn read_state(path: &Path) -> Option<CpuManagerState> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_FILE_BYTES).ok()?.saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .ok()?;
    let how = CpuRestore {
        file: "cpu_manager_state",
        policy: None,
        pod_level: PodLevel::Managed,
        running: &RunningContainers::new(),
        fidelity: Fidelity::Exact,
    };
    CpuManagerState::restore(&bytes, &how)
        .ok()
        .map(|(state, _)| state)
}
