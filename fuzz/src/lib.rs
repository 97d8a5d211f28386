//! Functions that several fuzz targets use.

use pinfold_core::machine::Machine;
use pinfold_core::machine::cpus::CpuTopology;
use pinfold_hardware::Hardware;
use pinfold_kube::state::Checksum;

/// The file with a correct checksum, without which every mutated file would be rejected at once.
pub fn with_right_checksum(bytes: &[u8], checksum: &Checksum) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let wrong = format!("\"checksum\":{}", checksum.stored);
    let right = format!("\"checksum\":{}", checksum.computed());
    text.to_ascii_lowercase()
        .rfind(&wrong)
        .and_then(|at| Some([text.get(..at)?, &right, text.get(at + wrong.len()..)?].concat()))
        .map_or_else(|| bytes.to_vec(), String::into_bytes)
}

/// Checks that a machine can be converted for the kubelet's rules, and is equal after it was written and read again.
pub fn check_machine(hardware: &Hardware) {
    let _ = hardware.machine_within_reach();
    let Ok(machine) = hardware.machine() else {
        return;
    };
    let topology = CpuTopology::of(&machine);
    assert_eq!(topology.all(), machine.online());
    let written = serde_json::to_string(&machine).expect("a machine is plain data");
    let read: Machine = serde_json::from_str(&written).expect("what was just written");
    assert_eq!(read, machine);
}
