//! Builder methods for container adjustments and updates.
//!
//! ```
//! use nri::api::{ContainerAdjustment, ContainerUpdate};
//!
//! let adjustment = ContainerAdjustment::new()
//!     .cpus("4-7")
//!     .mems("1")
//!     .env("GOMAXPROCS", "4")
//!     .annotation("example.com/pinned", "yes");
//! let update = ContainerUpdate::new("another-container").cpus("0-3");
//! # assert_eq!(adjustment.env.len(), 1);
//! # assert_eq!(update.container_id, "another-container");
//! ```
//!
//! The runtime reports an error if two plugins change the same field. A plugin that must override
//! another one removes the field first and then sets it.

use crate::api::{
    CdiDevice, ContainerAdjustment, ContainerUpdate, CreateContainerResponse, HugepageLimit,
    KeyValue, LinuxContainerAdjustment, LinuxCpu, LinuxDevice, LinuxMemory, LinuxMemoryPolicy,
    LinuxNamespace, LinuxPids, LinuxResources, Mount, MpolFlag, MpolMode, PosixRlimit,
    UpdateContainerResponse,
};

/// The key that marks an entry of an adjustment as removed.
fn removed(key: &str) -> String {
    format!("-{key}")
}

impl LinuxResources {
    /// Resources without any value set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn cpu_mut(&mut self) -> &mut LinuxCpu {
        self.cpu.get_or_insert_default()
    }

    fn memory_mut(&mut self) -> &mut LinuxMemory {
        self.memory.get_or_insert_default()
    }

    /// Sets the CPUs, in the kernel's list format (`0-3,8`).
    #[must_use]
    pub fn cpus(mut self, list: impl Into<String>) -> Self {
        self.cpu_mut().cpus = list.into();
        self
    }

    /// Sets the memory nodes, in the kernel's list format.
    #[must_use]
    pub fn mems(mut self, list: impl Into<String>) -> Self {
        self.cpu_mut().mems = list.into();
        self
    }

    /// Sets the CPU shares.
    #[must_use]
    pub fn cpu_shares(mut self, shares: u64) -> Self {
        self.cpu_mut().shares = Some(shares);
        self
    }

    /// Sets the CFS quota and period in microseconds; a negative quota means no limit.
    #[must_use]
    pub fn cpu_quota(mut self, quota: i64, period: u64) -> Self {
        let cpu = self.cpu_mut();
        (cpu.quota, cpu.period) = (Some(quota), Some(period));
        self
    }

    /// Sets the memory limit in bytes.
    #[must_use]
    pub fn memory_limit(mut self, bytes: i64) -> Self {
        self.memory_mut().limit = Some(bytes);
        self
    }

    /// Sets the memory reservation (soft limit) in bytes.
    #[must_use]
    pub fn memory_reservation(mut self, bytes: i64) -> Self {
        self.memory_mut().reservation = Some(bytes);
        self
    }

    /// Adds a limit for huge pages of one size (`2MB`, `1GB`), in bytes.
    #[must_use]
    pub fn hugepages(mut self, page_size: impl Into<String>, bytes: u64) -> Self {
        self.hugepage_limits.push(HugepageLimit {
            page_size: page_size.into(),
            limit: bytes,
        });
        self
    }

    /// Sets the maximum number of processes.
    #[must_use]
    pub fn pids_limit(mut self, limit: i64) -> Self {
        self.pids = Some(LinuxPids { limit });
        self
    }

    /// Sets the content of a cgroup v2 file.
    #[must_use]
    pub fn unified(mut self, file: impl Into<String>, content: impl Into<String>) -> Self {
        self.unified.insert(file.into(), content.into());
        self
    }

    /// Sets the RDT class, a name in the runtime's configuration.
    #[must_use]
    pub fn rdt_class(mut self, class: impl Into<String>) -> Self {
        self.rdt_class = Some(class.into());
        self
    }

    /// Sets the block I/O class, a name in the runtime's configuration.
    #[must_use]
    pub fn blockio_class(mut self, class: impl Into<String>) -> Self {
        self.blockio_class = Some(class.into());
        self
    }
}

impl ContainerAdjustment {
    /// No change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn linux_mut(&mut self) -> &mut LinuxContainerAdjustment {
        self.linux.get_or_insert_default()
    }

    /// Changes the resources.
    #[must_use]
    pub fn resources(mut self, change: impl FnOnce(LinuxResources) -> LinuxResources) -> Self {
        let resources = &mut self.linux_mut().resources;
        *resources = Some(change(resources.take().unwrap_or_default()));
        self
    }

    /// Sets the CPUs, in the kernel's list format (`0-3,8`).
    #[must_use]
    pub fn cpus(self, list: impl Into<String>) -> Self {
        self.resources(|resources| resources.cpus(list))
    }

    /// Sets the memory nodes, in the kernel's list format.
    #[must_use]
    pub fn mems(self, list: impl Into<String>) -> Self {
        self.resources(|resources| resources.mems(list))
    }

    /// Sets the NUMA memory policy (NRI 0.12 and later).
    #[must_use]
    pub fn memory_policy(
        mut self,
        mode: MpolMode,
        nodes: impl Into<String>,
        flags: &[MpolFlag],
    ) -> Self {
        self.linux_mut().memory_policy = Some(LinuxMemoryPolicy {
            mode: mode.into(),
            nodes: nodes.into(),
            flags: flags.iter().map(|&flag| flag.into()).collect(),
        });
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (name.into(), value.into());
        self.env.push(KeyValue { key, value });
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn remove_env(self, name: &str) -> Self {
        self.env(removed(name), "")
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// Removes an annotation.
    #[must_use]
    pub fn remove_annotation(self, name: &str) -> Self {
        self.annotation(removed(name), "")
    }

    /// Adds a mount.
    #[must_use]
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Removes the mount at a path of the container.
    #[must_use]
    pub fn remove_mount(self, destination: &str) -> Self {
        self.mount(Mount {
            destination: removed(destination),
            ..Mount::default()
        })
    }

    /// Adds a device file.
    #[must_use]
    pub fn device(mut self, device: LinuxDevice) -> Self {
        self.linux_mut().devices.push(device);
        self
    }

    /// Removes the device file at a path of the container.
    #[must_use]
    pub fn remove_device(self, path: &str) -> Self {
        self.device(LinuxDevice {
            path: removed(path),
            ..LinuxDevice::default()
        })
    }

    /// Adds a device by its name in the Container Device Interface (NRI 0.8 and later).
    #[must_use]
    pub fn cdi_device(mut self, name: impl Into<String>) -> Self {
        self.cdi_devices.push(CdiDevice { name: name.into() });
        self
    }

    /// Adds a namespace, or replaces the one of the same type.
    #[must_use]
    pub fn namespace(mut self, namespace: LinuxNamespace) -> Self {
        self.linux_mut().namespaces.push(namespace);
        self
    }

    /// Removes the namespace of a type.
    #[must_use]
    pub fn remove_namespace(self, kind: &str) -> Self {
        self.namespace(LinuxNamespace {
            r#type: removed(kind),
            ..LinuxNamespace::default()
        })
    }

    /// Sets a kernel parameter of the container's namespaces.
    #[must_use]
    pub fn sysctl(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.linux_mut().sysctl.insert(name.into(), value.into());
        self
    }

    /// Sets a limit of `setrlimit`, by its name (`RLIMIT_NOFILE`).
    #[must_use]
    pub fn rlimit(mut self, name: impl Into<String>, soft: u64, hard: u64) -> Self {
        let r#type = name.into();
        self.rlimits.push(PosixRlimit { r#type, hard, soft });
        self
    }

    /// Sets the OOM score adjustment.
    #[must_use]
    pub fn oom_score_adj(mut self, score: i64) -> Self {
        self.linux_mut().oom_score_adj = Some(score);
        self
    }

    /// Sets the cgroup path.
    #[must_use]
    pub fn cgroups_path(mut self, path: impl Into<String>) -> Self {
        self.linux_mut().cgroups_path = path.into();
        self
    }
}

impl ContainerUpdate {
    /// No change to this container.
    pub fn new(container_id: impl Into<String>) -> Self {
        ContainerUpdate {
            container_id: container_id.into(),
            ..Self::default()
        }
    }

    /// Changes the resources.
    #[must_use]
    pub fn resources(mut self, change: impl FnOnce(LinuxResources) -> LinuxResources) -> Self {
        let resources = &mut self.linux.get_or_insert_default().resources;
        *resources = Some(change(resources.take().unwrap_or_default()));
        self
    }

    /// Sets the CPUs, in the kernel's list format (`0-3,8`).
    #[must_use]
    pub fn cpus(self, list: impl Into<String>) -> Self {
        self.resources(|resources| resources.cpus(list))
    }

    /// Sets the memory nodes, in the kernel's list format.
    #[must_use]
    pub fn mems(self, list: impl Into<String>) -> Self {
        self.resources(|resources| resources.mems(list))
    }

    /// Lets the runtime ignore a failure of this update, for example because the container just ended.
    #[must_use]
    pub fn ignore_failure(mut self) -> Self {
        self.ignore_failure = true;
        self
    }
}

impl From<ContainerAdjustment> for CreateContainerResponse {
    fn from(adjust: ContainerAdjustment) -> Self {
        CreateContainerResponse {
            adjust: Some(adjust),
            ..Self::default()
        }
    }
}

impl From<Vec<ContainerUpdate>> for UpdateContainerResponse {
    fn from(update: Vec<ContainerUpdate>) -> Self {
        UpdateContainerResponse {
            update,
            ..Self::default()
        }
    }
}
