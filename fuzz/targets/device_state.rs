//! The device manager's checkpoint. A file that the kubelet accepts is equal after it was read, written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::with_right_checksum;
use pinfold_kube::state::DeviceManagerState;

const FILE: &str = "kubelet_internal_checkpoint";

fuzz_target!(|bytes: &[u8]| {
    let Ok(checksum) = DeviceManagerState::checksum(bytes) else {
        return;
    };
    let file = with_right_checksum(bytes, &checksum);
    let state = match DeviceManagerState::restore(&file, FILE) {
        Ok(state) => state,
        Err(error) => return drop(error.to_string()),
    };
    let written = state.write();
    let again = DeviceManagerState::restore(written.as_bytes(), FILE)
        .unwrap_or_else(|error| panic!("{written}\n{error}"));
    assert_eq!(again, state, "{written}");
    assert_eq!(again.write(), written);
});
