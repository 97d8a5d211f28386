//! Reads what `pinfold topology -o json` prints, so that a machine can be kept and edited as JSON.

use serde::Deserialize;

use crate::error::HardwareError;
use crate::hardware::{Hardware, Inconsistency};

/// Limit of the number of caches, PCI functions and other parts of one kind.
const MOST_PARTS: usize = 1 << 16;

/// The part of the output that describes the machine; the rest follows from it.
#[derive(Deserialize)]
struct TopologyOutput {
    hardware: Hardware,
}

/// Parses the JSON of a machine.
pub(crate) fn read(text: &str) -> Result<Hardware, HardwareError> {
    let parsed: Result<TopologyOutput, _> = serde_json::from_str(text);
    let malformed = |problem: String| HardwareError::Json { problem };
    let mut hardware = parsed
        .map_err(|error| malformed(error.to_string()))?
        .hardware;
    check(&hardware).map_err(malformed)?;
    // `finish` records these two again.
    hardware.inconsistencies.retain(|one| {
        !matches!(
            one,
            Inconsistency::SharedCpu { .. } | Inconsistency::CpusWithoutNode { .. }
        )
    });
    hardware.nodes.sort_by_key(|node| node.id);
    Ok(hardware.finish())
}

/// Rejects values that no kernel reports and other readers cannot produce.
fn check(hardware: &Hardware) -> Result<(), String> {
    if hardware.cpus.online.is_empty() {
        return Err("hardware.cpus.online: expected at least one CPU".to_owned());
    }
    if hardware.counted_sockets == 0 {
        return Err("hardware.counted_sockets: expected at least 1".to_owned());
    }
    for (parts, number) in [
        ("sockets", hardware.sockets.len()),
        ("dies", hardware.dies.len()),
        ("clusters", hardware.clusters.len()),
        ("cores", hardware.cores.len()),
        ("caches", hardware.caches.len()),
        ("devices", hardware.devices.len()),
    ] {
        if number > MOST_PARTS {
            return Err(format!(
                "hardware.{parts}: expected at most {MOST_PARTS}, found {number}"
            ));
        }
    }
    let mut ids: Vec<_> = hardware.nodes.iter().map(|node| node.id).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!(
            "hardware.nodes: NUMA node {} occurs twice",
            pair[0]
        ));
    }
    let expected = hardware.nodes.len();
    for node in &hardware.nodes {
        let found = node.distances.len();
        if found != 0 && found != expected {
            return Err(format!(
                "NUMA node {}: expected {expected} distances, one per node, found {found}",
                node.id
            ));
        }
    }
    Ok(())
}
