//! Pods in the format of the vectors.

use pinfold_core::pod::Pod;
use serde::Deserialize;
use serde_json::Value;

/// Reads one pod.
pub(super) fn read(json: &Value) -> Result<Pod, String> {
    Pod::deserialize(json).map_err(|error| format!("pod: {error}"))
}
