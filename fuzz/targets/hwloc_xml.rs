//! hwloc's XML export.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match pinfold_hardware::from_hwloc_xml(text) {
        Ok(hardware) => pinfold_fuzz::check_machine(&hardware),
        Err(error) => drop(error.to_string()),
    }
});
