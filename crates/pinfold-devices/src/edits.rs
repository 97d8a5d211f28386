//! [`ContainerEdits`]: the changes to a container that its device plugins request.

use std::collections::BTreeMap;

use kubelet_api::device_plugin::{CdiDevice, ContainerAllocateResponse, DeviceSpec, Mount};
use pinfold_core::name::ResourceName;

/// The changes to a container, over all its resources. If two resources set the same name or path differently, the
/// first in resource order wins (the kubelet's order is random), and the other is recorded as a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEdits {
    /// Environment variables.
    pub envs: BTreeMap<String, String>,
    /// Files and folders of the host, at most one per path of the container.
    pub mounts: Vec<Mount>,
    /// Device files with their cgroup permissions, at most one per path of the container.
    pub devices: Vec<DeviceSpec>,
    /// Annotations for the runtime.
    pub annotations: BTreeMap<String, String>,
    /// CDI devices, each once.
    pub cdi_devices: Vec<CdiDevice>,
    /// Changes that were dropped because an earlier resource set the same name or path differently.
    pub conflicts: Vec<EditConflict>,
}

/// A change that was dropped because an earlier resource set the same name or path differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change of {resource} to {target} is ignored: another resource sets it differently")]
pub struct EditConflict {
    /// The resource whose change was dropped.
    pub resource: ResourceName,
    /// The variable, mount, device file or annotation.
    pub target: EditTarget,
}

/// A part of a container that two plugins can set differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditTarget {
    /// An environment variable, by name.
    #[error("the variable {0}")]
    Variable(String),
    /// A file or folder, by its path in the container.
    #[error("the mount {0}")]
    Mount(String),
    /// A device file, by its path in the container.
    #[error("the device file {0}")]
    Device(String),
    /// An annotation, by its key.
    #[error("the annotation {0}")]
    Annotation(String),
}

impl ContainerEdits {
    /// Adds the response of the plugin of `resource`.
    pub(crate) fn add(&mut self, resource: &ResourceName, response: &ContainerAllocateResponse) {
        let mut targets = Vec::new();
        let texts = add_texts(&mut self.envs, &response.envs);
        targets.extend(texts.map(EditTarget::Variable));
        let mounts = add_new(&mut self.mounts, &response.mounts, |one| {
            &one.container_path
        });
        targets.extend(mounts.map(EditTarget::Mount));
        let devices = add_new(&mut self.devices, &response.devices, |one| {
            &one.container_path
        });
        targets.extend(devices.map(EditTarget::Device));
        let texts = add_texts(&mut self.annotations, &response.annotations);
        targets.extend(texts.map(EditTarget::Annotation));
        // Equal CDI names refer to the same device.
        add_new(&mut self.cdi_devices, &response.cdi_devices, |one| {
            &one.name
        })
        .for_each(drop);
        self.conflicts.extend(targets.into_iter().map(|target| {
            let resource = resource.clone();
            EditConflict { resource, target }
        }));
    }
}

/// Adds texts under new keys. Returns the keys that already have another text.
fn add_texts(
    to: &mut BTreeMap<String, String>,
    from: &BTreeMap<String, String>,
) -> impl Iterator<Item = String> {
    from.iter().filter_map(move |(key, text)| {
        let known = to.entry(key.clone()).or_insert_with(|| text.clone());
        (known != text).then(|| key.clone())
    })
}

/// Adds items with new keys. Returns the keys that already have another item.
fn add_new<T: Clone + PartialEq>(
    to: &mut Vec<T>,
    from: &[T],
    key: fn(&T) -> &String,
) -> impl Iterator<Item = String> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (index, one) in to.iter().enumerate() {
        known.entry(key(one).clone()).or_insert(index);
    }
    from.iter().filter_map(move |one| {
        let index = *known.entry(key(one).clone()).or_insert(to.len());
        match to.get(index) {
            Some(other) => (other != one).then(|| key(one).clone()),
            None => {
                to.push(one.clone());
                None
            }
        }
    })
}
