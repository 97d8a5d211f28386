//! Messages of the kubelet's gRPC interfaces, the first byte telling which. What can be read is written so that it
//! reads the same again, in the length that was announced.
#![no_main]

use kubelet_api::{device_plugin as devices, pod_resources as pods};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fn check<T: Message + Default + PartialEq>(bytes: &[u8]) {
    let Ok(message) = T::decode(bytes) else {
        return;
    };
    let written = message.encode_to_vec();
    assert_eq!(written.len(), message.encoded_len());
    let again = T::decode(written.as_slice()).expect("just written");
    assert_eq!(again, message);
    assert_eq!(again.encode_to_vec(), written);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    match which % 8 {
        0 => check::<devices::ListAndWatchResponse>(bytes),
        1 => check::<devices::RegisterRequest>(bytes),
        2 => check::<devices::AllocateResponse>(bytes),
        3 => check::<devices::PreferredAllocationRequest>(bytes),
        4 => check::<devices::PreferredAllocationResponse>(bytes),
        5 => check::<devices::AllocateRequest>(bytes),
        6 => check::<pods::ListPodResourcesResponse>(bytes),
        _ => check::<pods::AllocatableResourcesResponse>(bytes),
    }
});
