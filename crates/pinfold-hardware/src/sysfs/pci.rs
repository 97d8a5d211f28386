//! PCI functions: `sys/bus/pci/devices`.

use super::number;
use crate::hardware::Hardware;
use crate::kernel_text::trim;
use crate::numa_id::NumaId;
use crate::pci::{PciAddress, PciDevice, PciKind, SriovRole};
use crate::tree::Tree;

const DEVICES: &str = "sys/bus/pci/devices";

pub(super) fn read(tree: &Tree, hardware: &mut Hardware) {
    let names = tree.names(DEVICES, |name| name.parse::<PciAddress>().is_ok());
    hardware.devices = names.iter().filter_map(|name| device(tree, name)).collect();
}

fn device(tree: &Tree, name: &str) -> Option<PciDevice> {
    let file = |file: &str| format!("{DEVICES}/{name}/{file}");
    let hex = |name: &str| {
        let text = tree.read(&file(name))?;
        u32::from_str_radix(trim(&text).strip_prefix("0x")?, 16).ok()
    };
    let short = |name: &str| u16::try_from(hex(name)?).ok();
    let (class, vendor) = (hex("class")? & 0x00ff_ffff, short("vendor")?);
    Some(PciDevice {
        address: name.parse().ok()?,
        kind: PciKind::of(class, vendor),
        class,
        vendor,
        device: short("device")?,
        // -1: the firmware does not report it.
        node: number::<u32>(tree, &file("numa_node")).and_then(NumaId::new),
        sriov: sriov(tree, &file),
    })
}

fn sriov(tree: &Tree, file: &impl Fn(&str) -> String) -> Option<SriovRole> {
    if let Some(physical) = tree.link(&file("physfn")) {
        return physical.parse().ok().map(|of| SriovRole::Virtual { of });
    }
    Some(SriovRole::Physical {
        total_vfs: number(tree, &file("sriov_totalvfs"))?,
        vfs: number(tree, &file("sriov_numvfs")).unwrap_or(0),
    })
}
