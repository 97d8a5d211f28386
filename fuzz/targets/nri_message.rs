//! Every message of NRI. An encoded message decodes as the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri::api::*;
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
    match kind % 18 {
        0 => check::<RegisterPluginRequest>(bytes),
        1 => check::<UpdateContainersRequest>(bytes),
        2 => check::<UpdateContainersResponse>(bytes),
        3 => check::<ConfigureRequest>(bytes),
        4 => check::<ConfigureResponse>(bytes),
        5 => check::<SynchronizeRequest>(bytes),
        6 => check::<SynchronizeResponse>(bytes),
        7 => check::<PodSandboxRequest>(bytes),
        8 => check::<ContainerRequest>(bytes),
        9 => check::<UpdatePodSandboxRequest>(bytes),
        10 => check::<CreateContainerResponse>(bytes),
        11 => check::<UpdateContainerRequest>(bytes),
        12 => check::<UpdateContainerResponse>(bytes),
        13 => check::<StopContainerResponse>(bytes),
        14 => check::<StateChangeEvent>(bytes),
        15 => check::<ValidateContainerAdjustmentRequest>(bytes),
        16 => check::<ValidateContainerAdjustmentResponse>(bytes),
        _ => check::<Empty>(bytes),
    }
});
