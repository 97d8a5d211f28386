//! [`core_numbers`]: numbers of cores that are unique in a machine.
//!
//! The kernel's `core_id` repeats per package, on some machines per cluster. Readers of objects take equal numbers for
//! one core: koord-scheduler and vc-scheduler would take CPUs of two sockets for siblings. So objects that leave the
//! node number the cores of the machine as `lscpu` does, which koordlet reports: in the order of their first CPU.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuId;
use pinfold_core::machine::Machine;

/// The number of the core of each CPU.
#[must_use]
pub fn core_numbers(machine: &Machine) -> BTreeMap<CpuId, i64> {
    let cores = machine.nodes().iter().flat_map(|node| &node.cores);
    let mut cores: Vec<_> = cores.map(|core| core.threads.as_slice()).collect();
    cores.sort_by_key(|threads| threads.iter().min());
    let numbered = (0_i64..).zip(cores);
    numbered
        .flat_map(|(number, threads)| threads.iter().map(move |cpu| (*cpu, number)))
        .collect()
}
