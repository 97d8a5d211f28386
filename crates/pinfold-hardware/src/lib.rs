//! Finds out what a machine is.
//!
//! ```text
//! sysfs (this machine, or a copied tree) ─┐
//! recording (one small file)             ─┤
//! hwloc XML                              ─┼─► Hardware ─► Machine, as the kubelet sees it
//! "2 sockets, 16 cores, smt2"            ─┤
//! preset                                 ─┘
//! ```
//!
//! [`open`] takes any of these by one text. [`Hardware`] says everything that was found;
//! [`Hardware::machine`] derives exactly what cAdvisor would tell the kubelet about it.
//!
//! Files are only read, every size and count from outside has a limit, and no input panics.

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
mod tree;
pub mod warnings;

pub use error::HardwareError;
pub use hardware::Hardware;
pub use numa_id::NumaId;
pub use open::open;

/// Reads hwloc's XML export, version 1 or 2.
///
/// # Errors
/// If it is not XML, not hwloc's, or beyond a limit.
pub fn from_hwloc_xml(xml: &str) -> Result<Hardware, HardwareError> {
    hwloc_xml::read(xml)
}

/// Reads the machine whose `sys` and `proc` directories are in `root`; `/` is this machine.
///
/// Symbolic links that lead out of any other root are not followed.
///
/// # Errors
/// If no CPU is found there, or a list that everything depends on is malformed.
pub fn from_sysfs(root: &std::path::Path) -> Result<Hardware, HardwareError> {
    sysfs::read(&tree::Tree::directory(root)?)
}
