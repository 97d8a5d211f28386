//! Reads the hardware of a machine.
//!
//! ```text
//! sysfs (this machine, or a copied tree) ─┐
//! recording (one small file)             ─┤
//! hwloc XML                              ─┼─► Hardware ─► Machine, as the kubelet sees it
//! "2 sockets, 16 cores, smt2"            ─┤
//! JSON of `pinfold topology -o json`     ─┤
//! preset                                 ─┘
//! ```
//!
//! [`open`] reads any of these from one specification. [`Hardware`] contains everything that was read;
//! [`Hardware::machine`] derives exactly what cAdvisor would report to the kubelet.
//!
//! Files are only read, every size and count of the input is limited, and no input panics.

mod error;
pub mod hardware;
mod hwloc_xml;
mod kernel_text;
pub mod kubelet_view;
mod nearest;
pub mod numa_id;
mod open;
pub mod pci;
pub mod presets;
pub mod record;
pub mod synthetic;
mod sysfs;
mod topology_json;
mod tree;
pub mod warnings;

pub use error::HardwareError;
pub use hardware::Hardware;
pub use numa_id::NumaId;
pub use open::{open, open_bytes, open_without_files};

/// Parses an XML export of hwloc, version 1 or 2.
///
/// # Errors
/// If it is not XML, not an export of hwloc, or exceeds a limit.
pub fn from_hwloc_xml(xml: &str) -> Result<Hardware, HardwareError> {
    hwloc_xml::read(xml)
}

/// Parses the JSON that `pinfold topology -o json` prints.
///
/// # Errors
/// If it is not that JSON, or contradicts itself.
pub fn from_topology_json(text: &str) -> Result<Hardware, HardwareError> {
    topology_json::read(text)
}

/// Reads the machine whose `sys` and `proc` directories are in `root`; `/` is this machine.
///
/// Symbolic links that lead out of a root other than `/` are not followed.
///
/// # Errors
/// If no CPU is found, or a required list is malformed.
pub fn from_sysfs(root: &std::path::Path) -> Result<Hardware, HardwareError> {
    sysfs::read(&tree::Tree::directory(root)?)
}
