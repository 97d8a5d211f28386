//! Machines described in one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_hardware::synthetic;

fuzz_target!(|text: &str| {
    match synthetic::read(text) {
        Ok(hardware) => pinfold_fuzz::check_machine(&hardware),
        Err(error) => drop(error.to_string()),
    }
});
