//! Every message of device plugins and pod resources. An encoded message decodes as the same message.
#![no_main]

use kubelet_api::{device_plugin as plugin, pod_resources as pods};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fn check<M: Message + Default + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        let written = message.encode_to_vec();
        let read = M::decode(&*written).expect("what was just written");
        assert_eq!(read, message);
        assert_eq!(read.encode_to_vec(), written);
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    match kind % 12 {
        0 => check::<plugin::RegisterRequest>(bytes),
        1 => check::<plugin::DevicePluginOptions>(bytes),
        2 => check::<plugin::ListAndWatchResponse>(bytes),
        3 => check::<plugin::PreferredAllocationRequest>(bytes),
        4 => check::<plugin::PreferredAllocationResponse>(bytes),
        5 => check::<plugin::AllocateRequest>(bytes),
        6 => check::<plugin::AllocateResponse>(bytes),
        7 => check::<plugin::PreStartContainerRequest>(bytes),
        8 => check::<pods::ListPodResourcesResponse>(bytes),
        9 => check::<pods::AllocatableResourcesResponse>(bytes),
        10 => check::<pods::GetPodResourcesRequest>(bytes),
        _ => check::<pods::GetPodResourcesResponse>(bytes),
    }
});
