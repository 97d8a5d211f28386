//! Messages of `ListAndWatch`.

use prost::DecodeError;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, int32, message, skip_field};

/// The health of a device that can be allocated. Any other text means unhealthy.
pub const HEALTHY: &str = "Healthy";

/// The health of a device that cannot be allocated.
pub const UNHEALTHY: &str = "Unhealthy";

/// All devices of a plugin.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListAndWatchResponse {
    /// The devices. A device that is not listed no longer exists.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// One device.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Device {
    /// Its id, unique within the resource.
    #[prost(string, tag = "1")]
    pub id: String,
    /// [`HEALTHY`] or [`UNHEALTHY`].
    #[prost(string, tag = "2")]
    pub health: String,
    /// Its NUMA nodes, if the plugin reports them.
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// A NUMA node.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NumaNode {
    /// Its id.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The NUMA nodes, or the CPU socket, of a device.
///
/// Field 1 has had two meanings. It is a list of NUMA nodes; in the API's first design it was the number of a CPU
/// socket, -1 for none. The wire types differ (message and varint), so both can be decoded, and neither is mistaken for
/// the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyInfo {
    /// The NUMA nodes that the device is close to.
    pub nodes: Vec<NumaNode>,
    /// The CPU socket of the device, from plugins of the first design. The last one counts if there are several.
    pub socket: Option<i32>,
}

impl TopologyInfo {
    const FIELD: u32 = 1;
}

impl prost::Message for TopologyInfo {
    fn encode_raw(&self, out: &mut impl BufMut) {
        if let Some(socket) = &self.socket {
            int32::encode(Self::FIELD, socket, out);
        }
        message::encode_repeated(Self::FIELD, &self.nodes, out);
    }

    fn merge_field(
        &mut self,
        field: u32,
        wire: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match (field, wire) {
            (Self::FIELD, WireType::Varint) => {
                let socket = self.socket.get_or_insert_default();
                int32::merge(wire, socket, from, context)
            }
            (Self::FIELD, _) => message::merge_repeated(wire, &mut self.nodes, from, context),
            _ => skip_field(wire, field, from, context),
        }
    }

    fn encoded_len(&self) -> usize {
        let socket = self.socket.as_ref();
        socket.map_or(0, |socket| int32::encoded_len(Self::FIELD, socket))
            + message::encoded_len_repeated(Self::FIELD, &self.nodes)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    /// `3: { 1: { 1: 1 } }` after id and health, as other implementations encode it.
    const GPU: &[u8] =
        b"\x0a\x28GPU-fef8089b-4820-abfc-e83e-94318197576e\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01";

    fn gpu() -> Device {
        Device {
            id: "GPU-fef8089b-4820-abfc-e83e-94318197576e".to_owned(),
            health: HEALTHY.to_owned(),
            topology: Some(TopologyInfo {
                nodes: vec![NumaNode { id: 1 }],
                socket: None,
            }),
        }
    }

    #[test]
    fn a_healthy_gpu_on_node_1_has_these_bytes() {
        assert_eq!(gpu().encode_to_vec(), GPU);
        assert_eq!(Device::decode(GPU), Ok(gpu()));
    }

    #[test]
    fn a_socket_of_the_first_design_is_not_decoded_as_a_node() {
        for (bytes, socket) in [
            (&b"\x08\x01"[..], 1),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -1),
        ] {
            let found = TopologyInfo::decode(bytes).expect("both are valid");
            let expected = TopologyInfo {
                nodes: vec![],
                socket: Some(socket),
            };
            assert_eq!(found, expected);
            assert_eq!(found.encode_to_vec(), bytes);
        }
    }

    #[test]
    fn no_topology_and_an_empty_one_are_different() {
        let bare = Device::decode(&b"\x0a\x01a"[..]).expect("an id only");
        assert_eq!(bare.topology, None);
        let empty = Device::decode(&b"\x0a\x01a\x1a\x00"[..]).expect("with an empty message");
        assert_eq!(empty.topology, Some(TopologyInfo::default()));
    }
}
