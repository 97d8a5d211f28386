//! The format of the device file as Go types. Names and order of the fields affect the checksum.

use ::base64::prelude::{BASE64_STANDARD as STANDARD, Engine};

use super::base64;
use crate::go::json::{self, Json};
use crate::go::record::{go_named, go_struct};
use crate::go::value::{Decoder, GoValue, Map, Slice};
use crate::state::checkpoint::{Checkpoint, ChecksumField};

go_named! {
    /// The id of a NUMA node, -1 for none.
    key struct NodeKey(i64) = "int64"
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
        checksum: ChecksumField = "Checksum" "Checksum",
    }
}

impl Checkpoint for DeviceCheckpointFile {
    fn checksum_field(&mut self) -> &mut ChecksumField {
        &mut self.checksum
    }

    fn hashed_text(&self) -> String {
        let mut text = format!("({})", DeviceCheckpointData::type_name());
        self.data.dump(&mut text);
        text
    }
}

/// A Go byte slice: base64 in JSON, numbers in the dump; `None` is `nil`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
                out.push_str(&format!("[{}]", numbers.join(" ")));
            }
        }
    }

    fn encode(&self, out: &mut String) {
        match &self.0 {
            None => out.push_str("null"),
            Some(bytes) => json::push_string(out, &STANDARD.encode(bytes)),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(Vec::is_empty)
    }
}
