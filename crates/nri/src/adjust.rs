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
//! What no method sets is set in the fields of the message. The runtime reports an error if two plugins change the same
//! field. A plugin that must override another one removes the entry first, which is an entry whose name has a leading
//! `-`, and then sets it.

use crate::api::{
    CdiDevice, ContainerAdjustment, ContainerUpdate, CreateContainerResponse, KeyValue,
    LinuxContainerAdjustment, LinuxCpu, LinuxDevice, LinuxResources, Mount,
    UpdateContainerResponse,
};

impl LinuxResources {
    /// Resources without any value set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn cpu_mut(&mut self) -> &mut LinuxCpu {
        self.cpu.get_or_insert_default()
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
        self.memory.get_or_insert_default().limit = Some(bytes);
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

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (name.into(), value.into());
        self.env.push(KeyValue { key, value });
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// Adds a mount.
    #[must_use]
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Adds a device file.
    #[must_use]
    pub fn device(mut self, device: LinuxDevice) -> Self {
        self.linux_mut().devices.push(device);
        self
    }

    /// Adds a device by its name in the Container Device Interface (NRI 0.8 and later).
    #[must_use]
    pub fn cdi_device(mut self, name: impl Into<String>) -> Self {
        self.cdi_devices.push(CdiDevice { name: name.into() });
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
