//! `pinfold topology`: a machine as text, picture or data.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use pinfold_cluster::koordinator::pools::{CpuHolders, Pools};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::machine::Machine;
use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::{DeviceUse, MemoryRow, Occupancy};
use pinfold_core::settings::Settings;
use pinfold_hardware::pci::{PciDevice, PciKind};
use pinfold_hardware::record::Recording;
use pinfold_hardware::warnings::HardwareWarning;
use pinfold_hardware::{Hardware, NumaId};
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::Caption;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, paragraph};
use pinfold_render::{grid, svg, tree};
use serde::Serialize;

use crate::args::{NrtVersionArg, THIS, TopologyArgs, TopologyFormat};
use crate::devices::kind_name;
use crate::exit::Failure;
use crate::output::{self, width};
use crate::{input, node};

/// A machine as JSON and YAML.
#[derive(Serialize)]
struct Topology<'a> {
    /// The machine as the kernel or the file describes it.
    hardware: &'a Hardware,
    /// The machine as the kubelet sees it.
    kubelet_view: &'a Machine,
    /// Signs of missing or wrong firmware tables.
    warnings: &'a [HardwareWarning],
}

pub(crate) fn run(args: &TopologyArgs) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.record {
        return record(&args.machine.machine, file);
    }
    let hardware = input::hardware(&args.machine.machine)?;
    let machine = node::kubelet_machine(&hardware)?;
    let warnings = hardware.warnings();
    let topology = Topology {
        hardware: &hardware,
        kubelet_view: &machine,
        warnings: &warnings,
    };
    match args.output {
        TopologyFormat::Text => output::print(&text(&topology, args.devices))?,
        TopologyFormat::Svg => {
            let occupancy = occupancy(&hardware, &machine);
            let layout = MachineLayout::new(&machine, &occupancy);
            let caption = Caption {
                title: picture_title(args, &hardware),
                distances: args.distances.then_some(&machine),
                ..Caption::default()
            };
            output::print_raw(&svg::draw(&layout, &occupancy, caption))?;
        }
        TopologyFormat::Json => output::print_json(&topology)?,
        TopologyFormat::Yaml => output::print_yaml(&topology)?,
        TopologyFormat::Nrt => output::print_yaml(&report(args, &hardware, &machine).content())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The NodeResourceTopology object of the machine without pods, under a kubelet without managers. Devices are left out:
/// only their device plugins know the resource names.
fn report(args: &TopologyArgs, hardware: &Hardware, machine: &Machine) -> NodeResourceTopology {
    let name = args.node_name.clone();
    let name = name.unwrap_or_else(|| object_name(title(hardware)));
    let settings = Settings::default();
    let empty = Occupancy {
        shared: machine.online().clone(),
        ..Occupancy::default()
    };
    let report = node_resource_topology::publish(&name, machine, &empty, &settings);
    match args.nrt_version {
        NrtVersionArg::V1alpha2 => report,
        NrtVersionArg::V1alpha1 => {
            let facts = ReportAnnotations::of(machine, &settings, CpuSet::new());
            let topology = facts.topology(settings.fidelity);
            let pools = Pools::of(&topology, &CpuHolders::default());
            koordinator::publish(&report, &facts.with_pools(&pools))
        }
    }
}

/// Turns a text into the name of an object: lower case letters, digits and dashes.
fn object_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    // An object's name has at most 253 letters.
    name.truncate(253);
    match name.trim_end_matches('-') {
        "" => "machine".to_owned(),
        name => name.to_owned(),
    }
}

fn record(spec: &str, file: &Path) -> Result<ExitCode, Failure> {
    let root = match spec {
        "this" => Path::new("/"),
        directory if Path::new(directory).is_dir() => Path::new(directory),
        other => {
            return Err(Failure::BadInput(format!(
                "cannot record {other:?}: expected this machine, or a directory with sys and proc in it"
            )));
        }
    };
    let recording = Recording::of(root).map_err(|error| input::machine_failure(&error))?;
    let mut bytes = Vec::new();
    recording
        .write(&mut bytes)
        .map_err(|error| Failure::Environment(error.to_string()))?;
    output::write_file(file, &bytes)?;
    let name = file.display();
    output::print(&format!(
        "recorded in {name} ({} bytes); read it back with --machine {name}\n",
        bytes.len()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn title(hardware: &Hardware) -> &str {
    match hardware.name.as_str() {
        "" => "machine",
        name => name,
    }
}

/// The machine's name, or what the user calls it.
fn picture_title<'a>(args: &'a TopologyArgs, hardware: &'a Hardware) -> &'a str {
    match (hardware.name.as_str(), args.machine.machine.as_str()) {
        ("", THIS) => "this machine",
        ("", spec) => spec,
        (name, _) => name,
    }
}

fn text(topology: &Topology<'_>, all_devices: bool) -> String {
    let (hardware, machine) = (topology.hardware, topology.kubelet_view);
    let mut text = match hardware.name.as_str() {
        "" => String::new(),
        name => paragraph("", name, 2, width()),
    };
    text.push_str(&tree::draw(machine, width()));
    text.push('\n');
    let occupancy = Occupancy {
        devices: Vec::new(),
        ..occupancy(hardware, machine)
    };
    let layout = MachineLayout::new(machine, &occupancy);
    let colour = output::colour();
    text.push_str(&grid::draw(
        &layout,
        &occupancy,
        Legend::Names,
        width(),
        colour,
    ));
    for (name, cpus) in [
        ("isolated CPUs", &hardware.cpus.isolated),
        ("nohz_full CPUs", &hardware.cpus.nohz_full),
    ] {
        if !cpus.is_empty() {
            let _ = writeln!(text, "{name}: {cpus}");
        }
    }
    if let Some(allowed) = &hardware.allowed
        && !hardware.cpus.online.is_subset(&allowed.cpus)
    {
        let _ = writeln!(text, "this control group allows CPUs {}", allowed.cpus);
    }
    text.push_str(&match all_devices {
        true => device_list(hardware),
        false => device_counts(hardware),
    });
    let inconsistencies = hardware.inconsistencies.iter().map(ToString::to_string);
    let warnings: Vec<String> = topology
        .warnings
        .iter()
        .map(ToString::to_string)
        .chain(inconsistencies)
        .collect();
    if !warnings.is_empty() {
        text.push_str("\nwarnings\n");
        for line in warnings {
            text.push_str(&paragraph("  - ", &line, 4, width()));
        }
    }
    text
}

/// The devices that pods can use, by NUMA node.
fn near(hardware: &Hardware) -> BTreeMap<String, Vec<&PciDevice>> {
    let mut near: BTreeMap<(u32, String), Vec<&PciDevice>> = BTreeMap::new();
    let useful = |kind| !matches!(kind, PciKind::Bridge | PciKind::Other | PciKind::Display);
    for device in hardware.devices.iter().filter(|device| useful(device.kind)) {
        let key = match device.node {
            Some(node) => (node.get(), format!("near NUMA node {node}")),
            None => (u32::MAX, "near no NUMA node".to_owned()),
        };
        near.entry(key).or_default().push(device);
    }
    near.into_iter()
        .map(|((_, place), devices)| (place, devices))
        .collect()
}

fn device_counts(hardware: &Hardware) -> String {
    let mut text = String::new();
    for (place, devices) in near(hardware) {
        let mut kinds: BTreeMap<PciKind, usize> = BTreeMap::new();
        for device in devices {
            *kinds.entry(device.kind).or_default() += 1;
        }
        let kinds: Vec<String> = kinds
            .into_iter()
            .map(|(kind, number)| format!("{number} {}", kind_name(kind)))
            .collect();
        text.push_str(&paragraph(
            &format!("{place}: "),
            &kinds.join(", "),
            4,
            width(),
        ));
    }
    if !text.is_empty() {
        text.insert_str(0, "\nPCI devices (--devices lists them)\n");
    }
    text
}

fn device_list(hardware: &Hardware) -> String {
    if hardware.devices.is_empty() {
        return "\nno PCI devices\n".to_owned();
    }
    let mut table = Table::new([
        ("PCI device", Align::Left),
        ("kind", Align::Left),
        ("NUMA node", Align::Right),
        ("vendor:device", Align::Left),
    ]);
    for device in &hardware.devices {
        let node = device
            .node
            .map_or_else(|| "-".to_owned(), |node| node.to_string());
        let kind = match device.kind {
            PciKind::Bridge => "bridge",
            PciKind::Display => "display",
            kind => kind_name(kind),
        };
        table.row([
            device.address.to_string(),
            kind.to_owned(),
            node,
            format!("{:04x}:{:04x}", device.vendor, device.device),
        ]);
    }
    format!(
        "\n{}\n{}",
        count(hardware.devices.len(), "PCI device", "PCI devices"),
        table.draw()
    )
}

/// The machine without pods, with its devices.
fn occupancy(hardware: &Hardware, machine: &Machine) -> Occupancy {
    let memory = machine.nodes().iter().map(|node| MemoryRow {
        node: node.id,
        resource: "memory".into(),
        total: node.memory,
        allocatable: node.memory,
        free: node.memory,
    });
    let mut numbers: BTreeMap<PciKind, usize> = BTreeMap::new();
    let mut devices = Vec::new();
    for device in near(hardware).into_values().flatten() {
        let number = numbers.entry(device.kind).or_default();
        let kind = kind_name(device.kind);
        let node = device.node.and_then(NumaId::node_id);
        devices.push(DeviceUse {
            resource: kind.into(),
            id: format!("{kind}{number} {}", device.address),
            nodes: node.map_or(NodeSet::EMPTY, NodeSet::single),
            holder: None,
            healthy: true,
        });
        *number += 1;
    }
    Occupancy {
        shared: machine.online().clone(),
        memory: memory.collect(),
        devices,
        ..Occupancy::default()
    }
}
