//! `cpu_manager_state`. A file that the kubelet takes is written so that it reads the same again.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pinfold_core::demand::PodLevel;
use pinfold_fuzz::with_right_checksum;
use pinfold_kube::state::CpuManagerState;
use pinfold_kube::state::cpu::{CpuRestore, CpuStateFormat};

fuzz_target!(|bytes: &[u8]| {
    let Ok((checksum, _)) = CpuManagerState::checksum(bytes) else {
        return;
    };
    let file = with_right_checksum(bytes, &checksum);
    for pod_level in [PodLevel::Ignored, PodLevel::Managed] {
        let how = CpuRestore {
            file: "cpu_manager_state",
            policy: None,
            pod_level,
            running: &BTreeMap::new(),
        };
        let (state, format) = match CpuManagerState::restore(&file, &how) {
            Ok(restored) => restored,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        };
        let written = state.write(format);
        let (again, _) = CpuManagerState::restore(written.as_bytes(), &how)
            .unwrap_or_else(|error| panic!("{written}\n{error}"));
        if format != CpuStateFormat::V1 {
            assert_eq!(again, state, "{written}");
        }
        assert_eq!(again.write(format), written);
    }
});
