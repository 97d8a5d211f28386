//! The format of the device file as Go types. Names and order of the fields affect the checksum.

use super::base64;
use crate::go::json::{self, Json};
use crate::go::record::{go_named, go_struct};
use crate::go::value::{Decoder, GoKey, GoValue, Map, Slice};
use crate::state::Checksum;

go_named! {
    /// The checksum of the other fields.
    struct DeviceChecksumField(u64) = "checksum.Checksum"
}

go_named! {
    /// The id of a NUMA node, -1 for none.
    struct NodeKey(i64) = "int64"
}

impl GoKey for NodeKey {
    fn from_name(name: &str) -> Option<Self> {
        name.parse().ok().map(Self)
    }

    fn name(&self) -> String {
        self.0.to_string()
    }
}

go_named! {
    /// Device ids by NUMA node.
    struct DevicesPerNode(Map<NodeKey, Slice<String>>) = "checkpoint.DevicesPerNUMA"
}

go_struct! {
    /// The devices of one resource assigned to one container.
    struct PodDevicesEntry = "checkpoint"."PodDevicesEntry" {
        pod: String = "PodUID" "PodUID",
        container: String = "ContainerName" "ContainerName",
        resource: String = "ResourceName" "ResourceName",
        devices: DevicesPerNode = "DeviceIDs" "DeviceIDs",
        response: Bytes = "AllocResp" "AllocResp",
    }
}

go_struct! {
    /// The part that the checksum covers.
    struct DeviceCheckpointData = "checkpoint"."checkpointData" {
        entries: Slice<PodDevicesEntry> = "PodDeviceEntries" "PodDeviceEntries",
        registered: Map<String, Slice<String>> = "RegisteredDevices" "RegisteredDevices",
    }
}

go_struct! {
    /// The whole file.
    struct DeviceCheckpointFile = "checkpoint"."Data" {
        data: DeviceCheckpointData = "Data" "Data",
        checksum: DeviceChecksumField = "Checksum" "Checksum",
    }
}

impl DeviceCheckpointFile {
    pub(super) fn checksum(&self) -> Checksum {
        let mut text = format!("({})", DeviceCheckpointData::type_name());
        self.data.dump(&mut text);
        Checksum {
            stored: self.checksum.0,
            text,
        }
    }
}

/// A Go byte slice: base64 in JSON, numbers in the dump; `None` is `nil`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) Option<Vec<u8>>);

impl GoValue for Bytes {
    fn type_name() -> String {
        "[]uint8".to_owned()
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, name: fn() -> String) {
        match json {
            Json::Text(text) => match base64::decoded(text) {
                Ok(bytes) => self.0 = Some(bytes),
                Err(at) => decoder.note(format!("illegal base64 data at input byte {at}")),
            },
            other => {
                let mut numbers = Slice(self.0.take());
                numbers.decode_as(other, decoder, name);
                self.0 = numbers.0;
            }
        }
    }

    fn dump(&self, out: &mut String) {
        match &self.0 {
            None => out.push_str("<nil>"),
            Some(bytes) => {
                let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
                out.push('[');
                out.push_str(&numbers.join(" "));
                out.push(']');
            }
        }
    }

    fn encode(&self, out: &mut String) {
        match &self.0 {
            None => out.push_str("null"),
            Some(bytes) => json::push_string(out, &base64::encoded(bytes)),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(Vec::is_empty)
    }
}
