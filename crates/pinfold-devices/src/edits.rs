//! [`ContainerEdits`]: what has to be in a container so that it can use its devices.

use std::collections::BTreeMap;

use kubelet_api::device_plugin::{CdiDevice, ContainerAllocateResponse, DeviceSpec, Mount};
use pinfold_core::name::ResourceName;

/// What has to be in a container, over all its resources. Of two that disagree about a name or a path the first
/// counts, in order of the resources (the kubelet's order is random), and the other is a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEdits {
    /// Environment variables.
    pub envs: BTreeMap<String, String>,
    /// Files and folders of the host, no two at one path of the container.
    pub mounts: Vec<Mount>,
    /// Device files with what the container may do with them, no two at one path of the container.
    pub devices: Vec<DeviceSpec>,
    /// Annotations for the runtime.
    pub annotations: BTreeMap<String, String>,
    /// Devices of the Container Device Interface, each once.
    pub cdi_devices: Vec<CdiDevice>,
    /// What was not heard.
    pub conflicts: Vec<Conflict>,
}

/// A plugin that was not heard, because an earlier one said something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{resource} is not heard about {place}")]
pub struct Conflict {
    /// Whose plugin.
    pub resource: ResourceName,
    /// About what.
    pub place: Place,
}

/// Something in a container that two plugins can disagree about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Place {
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
    /// Adds what the plugin of `resource` wants.
    pub(crate) fn add(&mut self, resource: &ResourceName, wanted: &ContainerAllocateResponse) {
        let mut places = Vec::new();
        let texts = add_texts(&mut self.envs, &wanted.envs);
        places.extend(texts.map(Place::Variable));
        let mounts = add_new(&mut self.mounts, &wanted.mounts, |one| &one.container_path);
        places.extend(mounts.map(Place::Mount));
        let devices = add_new(&mut self.devices, &wanted.devices, |one| {
            &one.container_path
        });
        places.extend(devices.map(Place::Device));
        let texts = add_texts(&mut self.annotations, &wanted.annotations);
        places.extend(texts.map(Place::Annotation));
        // Names that are equal mean the same device.
        add_new(&mut self.cdi_devices, &wanted.cdi_devices, |one| &one.name).for_each(drop);
        self.conflicts.extend(places.into_iter().map(|place| {
            let resource = resource.clone();
            Conflict { resource, place }
        }));
    }
}

/// Adds texts under new keys. Returns the keys that have another text already.
fn add_texts(
    to: &mut BTreeMap<String, String>,
    from: &BTreeMap<String, String>,
) -> impl Iterator<Item = String> {
    from.iter().filter_map(move |(key, text)| {
        let known = to.entry(key.clone()).or_insert_with(|| text.clone());
        (known != text).then(|| key.clone())
    })
}

/// Adds what has a new key. Returns the keys that something else has already.
fn add_new<T: Clone + PartialEq>(
    to: &mut Vec<T>,
    from: &[T],
    key: fn(&T) -> &String,
) -> impl Iterator<Item = String> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (place, one) in to.iter().enumerate() {
        known.entry(key(one).clone()).or_insert(place);
    }
    from.iter().filter_map(move |one| {
        let place = *known.entry(key(one).clone()).or_insert(to.len());
        match to.get(place) {
            Some(other) => (other != one).then(|| key(one).clone()),
            None => {
                to.push(one.clone());
                None
            }
        }
    })
}
