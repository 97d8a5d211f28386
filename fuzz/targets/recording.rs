//! Recordings of kernel files, compressed or not. A written recording reads as the same recording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_hardware::record::Recording;

fuzz_target!(|bytes: &[u8]| {
    let recording = match Recording::read(bytes) {
        Ok(recording) => recording,
        Err(error) => return drop(error.to_string()),
    };
    let text = recording.to_text();
    let again = Recording::read(text.as_bytes()).expect("what was just written");
    assert_eq!(again, recording, "{text:?}");
    match recording.replay() {
        Ok(hardware) => pinfold_fuzz::check_machine(&hardware),
        Err(error) => drop(error.to_string()),
    }
});
