//! The kubelet's configuration in YAML, read as the kubelet does and as we do.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::kubelet_config::KubeletSettings;

fuzz_target!(|bytes: &[u8]| {
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        match KubeletSettings::read("fuzz.yaml", bytes, fidelity) {
            Ok(read) => {
                let settings = read.value;
                let _ = settings.reserved_cpu();
                let _ = settings.reserved_cpu_count();
                let _ = settings.reserved_node_memory(1 << 40);
            }
            Err(findings) => drop(findings.to_string()),
        }
    }
});
