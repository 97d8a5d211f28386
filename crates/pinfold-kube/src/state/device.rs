//! The device manager's file, `kubelet_internal_checkpoint`: devices by container.
//!
//! Mirrors `readCheckpoint` and `writeCheckpoint` of the device manager. There is one format; a checksum of 0 is not
//! accepted; the checksum covers only the inner part. Go prints `nil` and empty lists differently, so the checksum
//! depends on whether a list was missing.

use std::collections::BTreeMap;

use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::NodeId;

use crate::go::value::{Map, Slice, unmarshal};
use crate::state::checkpoint::{self, Checkpoint, check_size};
use crate::state::{Checksum, Fault, KubeletManager, RestoreError};

mod base64;
mod format;

use format::{
    Bytes, DeviceCheckpointData, DeviceCheckpointFile, DevicesPerNode, NodeKey, PodDevicesEntry,
};

/// The assignments of the device manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceManagerState {
    /// The entries, in the order of the file.
    pub entries: Vec<DeviceEntry>,
    /// The healthy devices of every resource when the file was written, in its order.
    pub registered: BTreeMap<ResourceName, Vec<String>>,
}

/// The devices of one resource assigned to one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEntry {
    /// The pod.
    pub pod: PodUid,
    /// Its container.
    pub container: ContainerName,
    /// The resource.
    pub resource: ResourceName,
    /// Device ids by NUMA node; `None` for devices without a node.
    pub devices: BTreeMap<Option<NodeId>, Vec<String>>,
    /// The plugin's encoded response (`ContainerAllocateResponse`).
    pub response: Vec<u8>,
}

/// The key of devices without a NUMA node.
const NO_NODE: i64 = -1;

impl DeviceManagerState {
    /// Restores a file as the kubelet does when it starts.
    ///
    /// # Errors
    /// With the kubelet's message for every file it rejects; and if the file names a NUMA node that no machine has.
    pub fn restore(bytes: &[u8], file: &str) -> Result<Self, RestoreError> {
        checkpoint::restore(KubeletManager::Device, file, bytes, |bytes| {
            let content = read(bytes)?;
            content.checksum().verify()?;
            Self::try_from(content.data)
        })
    }

    /// The file's content as the kubelet writes it.
    #[must_use]
    pub fn write(&self) -> String {
        let file = DeviceCheckpointFile {
            data: DeviceCheckpointData::from(self),
            ..DeviceCheckpointFile::default()
        };
        file.write()
    }

    /// The file's checksum.
    ///
    /// # Errors
    /// If the content is not of this format.
    pub fn checksum(bytes: &[u8]) -> Result<Checksum, Fault> {
        check_size(bytes)?;
        Ok(read(bytes)?.checksum())
    }
}

fn read(bytes: &[u8]) -> Result<DeviceCheckpointFile, Fault> {
    let mut file = DeviceCheckpointFile::default();
    unmarshal(bytes, &mut file, "checkpoint.Data").map_err(Fault::Json)?;
    Ok(file)
}

impl TryFrom<DeviceCheckpointData> for DeviceManagerState {
    type Error = Fault;

    fn try_from(content: DeviceCheckpointData) -> Result<Self, Fault> {
        let entries = content.entries.0.unwrap_or_default();
        let registered = content.registered.0.unwrap_or_default();
        Ok(Self {
            entries: entries
                .into_iter()
                .map(DeviceEntry::try_from)
                .collect::<Result<_, _>>()?,
            registered: registered
                .into_iter()
                .map(|(resource, ids)| (resource.into(), ids.0.unwrap_or_default()))
                .collect(),
        })
    }
}

impl TryFrom<PodDevicesEntry> for DeviceEntry {
    type Error = Fault;

    fn try_from(entry: PodDevicesEntry) -> Result<Self, Fault> {
        let mut devices = BTreeMap::new();
        for (NodeKey(node), ids) in entry.devices.0.0.into_iter().flatten() {
            let node = match node {
                NO_NODE => None,
                id => Some(NodeId::new(id).map_err(Fault::NoSuchNode)?),
            };
            devices.insert(node, ids.0.unwrap_or_default());
        }
        Ok(Self {
            pod: entry.pod.into(),
            container: entry.container.into(),
            resource: entry.resource.into(),
            devices,
            response: entry.response.0.unwrap_or_default(),
        })
    }
}

impl From<&DeviceManagerState> for DeviceCheckpointData {
    fn from(state: &DeviceManagerState) -> Self {
        let entries: Vec<PodDevicesEntry> =
            state.entries.iter().map(PodDevicesEntry::from).collect();
        let ids = |ids: &Vec<String>| Slice(Some(ids.clone()));
        Self {
            // The kubelet appends to a nil list: without an entry it stays nil.
            entries: Slice(Some(entries).filter(|entries| !entries.is_empty())),
            registered: state
                .registered
                .iter()
                .map(|(resource, devices)| (resource.to_string(), ids(devices)))
                .collect(),
        }
    }
}

impl From<&DeviceEntry> for PodDevicesEntry {
    fn from(entry: &DeviceEntry) -> Self {
        let key = |node: Option<NodeId>| NodeKey(node.map_or(NO_NODE, |id| id.get().into()));
        let devices: Map<NodeKey, Slice<String>> = entry
            .devices
            .iter()
            .map(|(&node, ids)| (key(node), Slice(Some(ids.clone()))))
            .collect();
        Self {
            pod: entry.pod.to_string(),
            container: entry.container.to_string(),
            resource: entry.resource.to_string(),
            devices: DevicesPerNode(devices),
            response: Bytes(Some(entry.response.clone())),
        }
    }
}

#[cfg(test)]
mod tests;
