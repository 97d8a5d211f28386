//! `cpu_manager_state`. A file that the kubelet accepts is equal after it was read, written and read again.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_fuzz::with_right_checksum;
use pinfold_kube::state::CpuManagerState;
use pinfold_kube::state::cpu::{CpuRestore, CpuStateFormat};

fuzz_target!(|bytes: &[u8]| {
    let Ok((checksum, _)) = CpuManagerState::checksum(bytes) else {
        return;
    };
    let file = with_right_checksum(bytes, &checksum);
    for (pod_level, own) in [
        (PodLevel::Ignored, CpuStateFormat::V2),
        (PodLevel::Managed, CpuStateFormat::V3),
    ] {
        let how = CpuRestore {
            file: "cpu_manager_state",
            policy: None,
            pod_level,
            running: &BTreeMap::new(),
            fidelity: Fidelity::Exact,
        };
        let state = match CpuManagerState::restore(&file, &how) {
            Ok((state, _)) => state,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        };
        for format in [own, CpuStateFormat::V4] {
            let written = state.write(format);
            let (again, read_as) = CpuManagerState::restore(written.as_bytes(), &how)
                .unwrap_or_else(|error| panic!("{written}\n{error}"));
            let mut expected = state.clone();
            if format == CpuStateFormat::V2 {
                // The format cannot represent them.
                expected.pods.clear();
            }
            assert_eq!((&again, read_as), (&expected, format), "{written}");
            assert_eq!(again.write(format), written);
        }
    }
});
