//! Reads a machine from sysfs and procfs, of current kernels and of those of fifteen years ago.
//!
//! Lists (`cpulist`) are preferred to masks (`cpumap`), which old kernels have instead. Missing files are left unknown;
//! only a machine without CPUs, or a malformed list that everything else depends on, is an error.

use crate::error::{HardwareError, excerpt};
use crate::hardware::{Hardware, Inconsistency};
use crate::kernel_text::{TextError, trim};
use crate::tree::Tree;

mod caches;
mod cgroup;
mod cpus;
mod nodes;
mod pci;

/// Reads the machine.
pub(crate) fn read(tree: &Tree) -> Result<Hardware, HardwareError> {
    let mut hardware = Hardware {
        name: product(tree),
        ..Hardware::default()
    };
    cpus::read(tree, &mut hardware)?;
    caches::read(tree, &mut hardware);
    nodes::read(tree, &mut hardware)?;
    pci::read(tree, &mut hardware);
    hardware.allowed = cgroup::read(tree);
    Ok(hardware.finish())
}

/// The product name of the machine.
fn product(tree: &Tree) -> String {
    const DMI: &str = "sys/devices/virtual/dmi/id";
    let name = |file: &str| {
        let text = tree.read(file)?;
        Some(excerpt(trim(&text))).filter(|name| !name.is_empty())
    };
    let vendor = name(&format!("{DMI}/sys_vendor"));
    let product = name(&format!("{DMI}/product_name"));
    match (vendor, product) {
        (Some(vendor), Some(product)) => format!("{vendor} {product}"),
        (vendor, product) => product
            .or(vendor)
            .or_else(|| name("proc/device-tree/model"))
            .unwrap_or_default(),
    }
}

/// Turns malformed content of a required file into an error.
fn essential<T>(
    path: &str,
    text: &str,
    expected: &'static str,
    read: Result<T, TextError>,
) -> Result<T, HardwareError> {
    read.map_err(|error| match error {
        TextError::OutOfRange(found) => HardwareError::TooMuch {
            what: "an id in a kernel list",
            found,
            limit: u64::from(pinfold_core::cpu_set::CpuId::LIMIT - 1),
        },
        TextError::Malformed => HardwareError::Malformed {
            path: path.to_owned(),
            expected,
            found: excerpt(trim(text)),
        },
    })
}

/// Records that a file's content was ignored.
fn ignore(hardware: &mut Hardware, path: &str, text: &str) {
    // A faulty kernel has the same fault in every CPU's directory: one record is enough.
    const ENOUGH: usize = 64;
    if hardware.inconsistencies.len() < ENOUGH {
        hardware.inconsistencies.push(Inconsistency::Ignored {
            path: path.to_owned(),
            found: excerpt(trim(text)),
        });
    }
}

/// Reads a file that contains one number.
fn number<T: std::str::FromStr>(tree: &Tree, path: &str) -> Option<T> {
    trim(&tree.read(path)?).parse().ok()
}
