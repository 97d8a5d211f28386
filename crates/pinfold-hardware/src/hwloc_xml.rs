//! Reads the XML that hwloc exports (`lstopo machine.xml`), versions 1 and 2.
//!
//! hwloc describes a machine as a tree of objects, each with the set of CPUs below it. A NUMA node's set is its
//! *locality*: a node without CPUs (HBM, CXL) has the set of the CPUs nearest to it. The kernel has every CPU in one
//! node, so each CPU is assigned to the node with the smallest set that contains it, the lowest id among equals; the
//! other nodes have no CPUs.
//!
//! hwloc does not export cache ids (numbered here in its order), free memory and SR-IOV.

use crate::error::HardwareError;
use crate::hardware::Hardware;

mod distances;
mod element;
mod objects;

/// Parses an XML export of hwloc.
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
