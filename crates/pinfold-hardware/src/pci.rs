//! PCI functions and their NUMA nodes.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::numa_id::NumaId;

/// The address of a PCI function: `domain:bus:device.function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The PCI segment.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device on the bus.
    pub device: u8,
    /// The function of the device.
    pub function: u8,
}

impl FromStr for PciAddress {
    type Err = ();

    /// Parses `0000:3b:00.1`, or `3b:00.1` in domain 0.
    fn from_str(text: &str) -> Result<Self, ()> {
        let hex = |part: &str| u32::from_str_radix(part, 16).map_err(|_| ());
        let byte = |part: &str| u8::from_str_radix(part, 16).map_err(|_| ());
        let (place, function) = text.rsplit_once('.').ok_or(())?;
        let (rest, device) = place.rsplit_once(':').ok_or(())?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        Ok(Self {
            domain: hex(domain)?,
            bus: byte(bus)?,
            device: byte(device)?,
            function: byte(function)?,
        })
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let expected = || D::Error::custom("expected a PCI address such as 0000:3b:00.1");
        text.parse().map_err(|()| expected())
    }
}

/// The kinds of PCI functions that placement distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PciKind {
    /// GPUs: 3D controllers, and display controllers of vendors that make GPUs.
    Gpu,
    /// Other display controllers: the console chip of a management controller.
    Display,
    /// Network controllers, such as Ethernet.
    Nic,
    /// `InfiniBand`.
    Infiniband,
    /// NVMe storage.
    Nvme,
    /// Processing accelerators and co-processors.
    Accelerator,
    /// CXL memory.
    CxlMemory,
    /// Bridges and switches.
    Bridge,
    /// Everything else.
    Other,
}

impl PciKind {
    /// The kind, from the 24-bit class code and the vendor.
    #[must_use]
    pub fn of(class: u32, vendor: u16) -> Self {
        const NVIDIA: u16 = 0x10de;
        const AMD: u16 = 0x1002;
        const INTEL: u16 = 0x8086;
        match class >> 8 {
            0x0302 => Self::Gpu,
            0x0300..=0x03ff if matches!(vendor, NVIDIA | AMD | INTEL) => Self::Gpu,
            0x0300..=0x03ff => Self::Display,
            0x0207 => Self::Infiniband,
            0x0200..=0x02ff => Self::Nic,
            0x0108 => Self::Nvme,
            0x0502 => Self::CxlMemory,
            0x0600..=0x06ff => Self::Bridge,
            0x0b40 | 0x1200..=0x12ff => Self::Accelerator,
            _ => Self::Other,
        }
    }
}

/// The role of a function in SR-IOV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SriovRole {
    /// A physical function.
    Physical {
        /// The most virtual functions it supports.
        total_vfs: u32,
        /// The virtual functions it has.
        vfs: u32,
    },
    /// A virtual function.
    Virtual {
        /// Its physical function.
        of: PciAddress,
    },
}

/// One PCI function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// Its address.
    pub address: PciAddress,
    /// Its kind.
    pub kind: PciKind,
    /// The 24-bit class code.
    #[serde(serialize_with = "as_hex::<6, _, _>", deserialize_with = "from_hex")]
    pub class: u32,
    /// The vendor's id.
    #[serde(serialize_with = "as_hex::<4, _, _>", deserialize_with = "from_hex")]
    pub vendor: u16,
    /// The device id.
    #[serde(serialize_with = "as_hex::<4, _, _>", deserialize_with = "from_hex")]
    pub device: u16,
    /// Its NUMA node; `None` if the firmware does not report it.
    pub node: Option<NumaId>,
    /// Its role in SR-IOV, if any.
    pub sriov: Option<SriovRole>,
}

/// Serializes a PCI id as hexadecimal digits: `10de`.
fn as_hex<const DIGITS: usize, T: fmt::LowerHex, S: Serializer>(
    id: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:0DIGITS$x}"))
}

/// Parses a PCI id from hexadecimal digits.
fn from_hex<'de, T: TryFrom<u32>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    let id = u32::from_str_radix(&text, 16).ok();
    let id = id.and_then(|id| T::try_from(id).ok());
    id.ok_or_else(|| D::Error::custom("expected a PCI id in hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::{PciAddress, PciKind};

    #[test]
    fn an_address_is_printed_as_the_kernel_prints_it() {
        for (text, printed) in [
            ("0000:3b:00.1", Some("0000:3b:00.1")),
            ("3b:1f.7", Some("0000:3b:1f.7")),
            ("10000:e1:00.0", Some("10000:e1:00.0")),
            ("3b", None),
            ("0000:300:00.0", None),
            ("::.", None),
        ] {
            let address = text.parse::<PciAddress>().ok();
            assert_eq!(address.map(|a| a.to_string()).as_deref(), printed, "{text}");
        }
    }

    #[test]
    fn the_kind_follows_from_the_class_and_the_vendor() {
        for (class, vendor, kind) in [
            (0x03_0200, 0x10de, PciKind::Gpu),
            (0x03_8000, 0x1002, PciKind::Gpu),
            (0x03_0000, 0x1a03, PciKind::Display),
            (0x02_0000, 0x15b3, PciKind::Nic),
            (0x02_0700, 0x15b3, PciKind::Infiniband),
            (0x01_0802, 0x144d, PciKind::Nvme),
            (0x12_0000, 0x1da3, PciKind::Accelerator),
            (0x0b_4000, 0x8086, PciKind::Accelerator),
            (0x05_0210, 0x1e98, PciKind::CxlMemory),
            (0x06_0400, 0x8086, PciKind::Bridge),
            (0x08_8000, 0x8086, PciKind::Other),
        ] {
            assert_eq!(PciKind::of(class, vendor), kind, "{class:06x}");
        }
    }
}
