//! The kubelet's configuration in YAML, read in exact and in sound mode.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::kubelet_config::KubeletSettings;

fuzz_target!(|bytes: &[u8]| {
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        match KubeletSettings::read("fuzz.yaml", bytes, fidelity) {
            Ok(read) => {
                // The configuration is also converted to settings of a ledger, on a machine of 1 TiB.
                let _ = read.value.settings(1 << 40, fidelity);
            }
            Err(findings) => drop(findings.to_string()),
        }
    }
});
