//! Reads a machine from the files of the Linux kernel, today's and those of fifteen years ago.
//!
//! Lists (`cpulist`) are preferred to masks (`cpumap`), which old kernels have instead. What is
//! missing is left unknown; only a machine without CPUs, or a malformed list that everything else
//! hangs on, is an error.

use crate::error::{HardwareError, excerpt};
use crate::hardware::{Hardware, Inconsistency};
use crate::kernel_text::{TextError, trim};
use crate::tree::Tree;

mod caches;
mod cgroup;
mod cpus;
mod nodes;
mod pci;

/// Reads everything.
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

/// What the maker calls the machine.
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

/// Turns bad text in a file that everything depends on into an error.
fn essential<T>(
    path: &str,
    text: &str,
    expected: &'static str,
    read: Result<T, TextError>,
) -> Result<T, HardwareError> {
    read.map_err(|error| match error {
        TextError::OutOfRange(found) => HardwareError::TooMuch {
            what: "an id in a list of the kernel",
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

/// Notes that a file was not believed.
fn ignore(hardware: &mut Hardware, path: &str, text: &str) {
    // One bad kernel has the same fault in every CPU's directory.
    const ENOUGH: usize = 64;
    if hardware.inconsistencies.len() < ENOUGH {
        hardware.inconsistencies.push(Inconsistency::Ignored {
            path: path.to_owned(),
            found: excerpt(trim(text)),
        });
    }
}

/// A number in a file of its own.
fn number<T: std::str::FromStr>(tree: &Tree, path: &str) -> Option<T> {
    trim(&tree.read(path)?).parse().ok()
}
