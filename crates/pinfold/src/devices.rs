//! The devices of device plugins, in one notation for `--device` and `--devices-file`.
//!
//! ```text
//! RESOURCE=ID@NODE,ID@NODE+NODE,ID    devices with their NUMA nodes; ID alone has none
//! RESOURCE=gpu                        all PCI devices of that kind of the machine: gpu0, gpu1, ...
//! ```
//!
//! A preset offers its GPUs as `nvidia.com/gpu`, unless the flags or the file name that resource or all GPUs.

use std::collections::BTreeMap;
use std::path::Path;

use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::ResourceName;
use pinfold_hardware::Hardware;
use pinfold_hardware::pci::PciKind;

use crate::args::NodeArgs;
use crate::exit::Failure;
use crate::input::Source;

/// The devices of each resource.
pub(crate) type Offers = BTreeMap<ResourceName, AdvertisedDevices>;

/// The kinds of PCI devices that device plugins allocate, with their names in machine descriptions.
const KINDS: [(&str, PciKind); 6] = [
    ("gpu", PciKind::Gpu),
    ("nic", PciKind::Nic),
    ("infiniband", PciKind::Infiniband),
    ("nvme", PciKind::Nvme),
    ("accelerator", PciKind::Accelerator),
    ("cxl-memory", PciKind::CxlMemory),
];

/// The name of a kind of PCI device.
pub(crate) fn kind_name(kind: PciKind) -> &'static str {
    let known = KINDS.iter().find(|(_, own)| *own == kind);
    known.map_or("other", |(name, _)| name)
}

/// The resource of NVIDIA's device plugin. All GPUs of the presets are NVIDIA's.
const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// The kind of GPUs.
const GPU: &str = "gpu";

/// The devices of all flags and of the file, and those that the preset offers.
pub(crate) fn offers(args: &NodeArgs, hardware: &Hardware) -> Result<Offers, Failure> {
    let mut found = NamedDevices::default();
    named(
        &mut found,
        &args.devices,
        args.devices_file.as_deref(),
        hardware,
    )?;
    let is_preset = pinfold_hardware::presets::find(&args.machine.machine).is_some();
    let has_gpus = hardware.devices_of_kind(PciKind::Gpu).next().is_some();
    let is_named = found.all_gpus || found.offers.contains_key(NVIDIA_GPU);
    if is_preset && has_gpus && !is_named {
        add(&mut found, "the preset", NVIDIA_GPU, GPU, hardware)?;
    }
    Ok(found.offers)
}

/// The devices that flags and the file name.
#[derive(Default)]
struct NamedDevices {
    offers: Offers,
    /// Whether a resource has all GPUs.
    all_gpus: bool,
}

fn named(
    offers: &mut NamedDevices,
    flags: &[String],
    file: Option<&Path>,
    hardware: &Hardware,
) -> Result<(), Failure> {
    if let Some(path) = file {
        let source = Source::open(path)?;
        let text = String::from_utf8_lossy(&source.bytes);
        let lines: BTreeMap<String, String> = serde_saphyr::from_str(&text).map_err(|error| {
            let problem = error.without_snippet().to_string();
            Failure::BadInput(format!(
                "{}: expected one line \"RESOURCE: DEVICES\" per resource, such as \
                 \"nvidia.com/gpu: gpu0@0, gpu1@1\": {problem}",
                source.name
            ))
        })?;
        for (resource, devices) in lines {
            add(offers, &source.name, &resource, &devices, hardware)?;
        }
    }
    for flag in flags {
        let Some((resource, devices)) = flag.split_once('=') else {
            return Err(Failure::BadInput(format!(
                "--device {flag}: expected RESOURCE=DEVICES, such as nvidia.com/gpu=gpu0@0,gpu1@1"
            )));
        };
        add(offers, "--device", resource, devices, hardware)?;
    }
    Ok(())
}

fn add(
    named: &mut NamedDevices,
    place: &str,
    resource: &str,
    devices: &str,
    hardware: &Hardware,
) -> Result<(), Failure> {
    let fail = |problem: String| Failure::BadInput(format!("{place}: {resource}: {problem}"));
    let resource = resource.trim();
    if !resource.contains('/') {
        return Err(fail(
            "expected the name of an extended resource, such as nvidia.com/gpu".to_owned(),
        ));
    }
    let offer = named.offers.entry(resource.into()).or_default();
    let devices = devices.trim();
    named.all_gpus |= devices == GPU;
    if let Some((name, kind)) = KINDS.iter().find(|(name, _)| *name == devices) {
        let found: Vec<_> = hardware.devices_of_kind(*kind).collect();
        if found.is_empty() {
            return Err(fail(format!(
                "the machine has no PCI device of the kind {name}; name the devices, such as {name}0@0"
            )));
        }
        for (index, device) in found.into_iter().enumerate() {
            let numa = device.node.map(|node| vec![i64::from(node.get())]);
            let healthy = true;
            offer.insert(format!("{name}{index}").into(), Device { numa, healthy });
        }
        return Ok(());
    }
    for word in devices
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let (id, nodes) = match word.split_once('@') {
            Some((id, nodes)) => (id, Some(nodes)),
            None => (word, None),
        };
        let numa = nodes.map(|nodes| {
            let ids = nodes.split('+').map(|id| id.trim().parse::<i64>());
            ids.collect::<Result<Vec<i64>, _>>()
        });
        let numa = numa.transpose().map_err(|_| {
            fail(format!(
                "{word:?}: expected ID@NODE or ID@NODE+NODE with the numbers of NUMA nodes"
            ))
        })?;
        let unknown = numa.iter().flatten().find(|&&id| !has_node(hardware, id));
        if let Some(id) = unknown {
            return Err(fail(format!("{word:?}: the machine has no NUMA node {id}")));
        }
        let healthy = true;
        if id.is_empty() || offer.insert(id.into(), Device { numa, healthy }).is_some() {
            return Err(fail(format!(
                "{word:?}: expected every device once, with a name"
            )));
        }
    }
    Ok(())
}

fn has_node(hardware: &Hardware, id: i64) -> bool {
    let mut nodes = hardware.nodes.iter();
    nodes.any(|node| i64::from(node.id.get()) == id)
}
