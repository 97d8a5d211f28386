//! Replays the families `checkpoints` and `checkpoints_podlevel`: state files as the kubelet wrote them.
//!
//! The checksum and the text that it is computed from must be equal, and a file that is read and written again must be
//! equal byte for byte.

use std::collections::BTreeMap;

use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::state::cpu::{CpuRestore, CpuStateFormat};
use pinfold_kube::state::memory::{MemoryRestore, MemoryStateFormat};
use pinfold_kube::state::{Checksum, CpuManagerState, DeviceManagerState, MemoryManagerState};
use serde::Deserialize;
use serde_json::json;

use super::Machines;
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    file: String,
    content: String,
}

pub(super) fn replay(
    case: &Case,
    _machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let (checksum, rewritten) = reread(&input, fidelity)?;
    if rewritten != input.content {
        return Err(format!(
            "written again:\n{rewritten}\ninstead of:\n{}",
            input.content
        ));
    }
    let found = json!({
        "checksum": checksum.stored,
        "hash_text": checksum.text,
        "hash_text_fnv32a": checksum.computed(),
        "valid": checksum.is_valid(),
    });
    case.compare(&found)
}

/// The checksum of the file, and the file written again after reading it.
fn reread(input: &Input, fidelity: Fidelity) -> Result<(Checksum, String), String> {
    let (file, bytes) = (input.file.as_str(), input.content.as_bytes());
    let level = |has_pod_entries| match has_pod_entries {
        true => PodLevel::Managed,
        false => PodLevel::Ignored,
    };
    match file {
        "cpu_manager_state" => {
            let (checksum, format) = CpuManagerState::checksum(bytes).map_err(text)?;
            let how = CpuRestore {
                file,
                policy: None,
                pod_level: level(format == CpuStateFormat::V3),
                running: &BTreeMap::new(),
                fidelity,
            };
            let (state, format) = CpuManagerState::restore(bytes, &how).map_err(text)?;
            Ok((checksum, state.write(format)))
        }
        "memory_manager_state" => {
            let (checksum, format) = MemoryManagerState::checksum(bytes).map_err(text)?;
            let how = MemoryRestore {
                file,
                policy: None,
                pod_level: level(format == MemoryStateFormat::V2),
                fidelity,
            };
            let (state, format) = MemoryManagerState::restore(bytes, &how).map_err(text)?;
            Ok((checksum, state.write(format)))
        }
        "kubelet_internal_checkpoint" => {
            let checksum = DeviceManagerState::checksum(bytes).map_err(text)?;
            let state = DeviceManagerState::restore(bytes, file).map_err(text)?;
            Ok((checksum, state.write()))
        }
        other => Err(format!("unknown file {other:?}")),
    }
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
