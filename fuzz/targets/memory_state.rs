//! `memory_manager_state`. A file that the kubelet accepts is equal after it was read, written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_fuzz::with_right_checksum;
use pinfold_kube::state::MemoryManagerState;
use pinfold_kube::state::memory::{MemoryRestore, MemoryStateFormat};

fuzz_target!(|bytes: &[u8]| {
    let Ok((checksum, _)) = MemoryManagerState::checksum(bytes) else {
        return;
    };
    let file = with_right_checksum(bytes, &checksum);
    for (pod_level, format) in [
        (PodLevel::Ignored, MemoryStateFormat::V1),
        (PodLevel::Managed, MemoryStateFormat::V2),
    ] {
        let how = MemoryRestore {
            file: "memory_manager_state",
            policy: None,
            pod_level,
            fidelity: Fidelity::Exact,
        };
        let state = match MemoryManagerState::restore(&file, &how) {
            Ok((state, _)) => state,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        };
        for format in [format, MemoryStateFormat::V3] {
            let written = state.write(format);
            let (again, read_as) = MemoryManagerState::restore(written.as_bytes(), &how)
                .unwrap_or_else(|error| panic!("{written}\n{error}"));
            assert_eq!((&again, read_as), (&state, format), "{written}");
            assert_eq!(again.write(format), written);
        }
    }
});
