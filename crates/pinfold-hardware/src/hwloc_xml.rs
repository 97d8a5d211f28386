//! Reads the XML that hwloc exports (`lstopo machine.xml`), versions 1 and 2.
//!
//! hwloc describes a machine as a tree of objects, each with the set of CPUs below it. A NUMA node's
//! set is its *locality*: memory without CPUs of its own (HBM, CXL) has the set of the CPUs it is
//! nearest to. The kernel puts every CPU into one node, so each CPU goes to the node with the
//! smallest set that has it, the lowest id among equals; the others are nodes without CPUs.
//!
//! What hwloc does not export stays unknown: ids of caches (numbered here in its order), free memory,
//! SR-IOV.

use crate::error::HardwareError;
use crate::hardware::Hardware;

mod distances;
mod element;
mod objects;

/// Reads an export.
pub(crate) fn read(xml: &str) -> Result<Hardware, HardwareError> {
    let topology = element::parse(xml)?;
    let mut objects = objects::HwlocObjects::default();
    for child in &topology.children {
        if child.name == "object" {
            objects.visit(child);
        }
    }
    let mut hardware = objects.into_hardware()?;
    distances::read(&topology, &mut hardware);
    Ok(hardware.hardware.finish())
}

#[cfg(test)]
mod tests;
