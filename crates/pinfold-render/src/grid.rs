//! The grid: each NUMA node with its caches, one glyph per core, coloured by pod and legible without colour.
//!
//! ```text
//! NUMA node 0  socket 0  8 of 16 CPUs free  memory 60 of 64 GiB free
//!   L3 0   #AAA ····          #  reserved     A  all threads of one pod    a  some threads of one pod
//!   L3 1   BBa* ····          ·  free         *  threads of several pods
//! ```

use std::fmt::Write;

use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::occupancy::{DeviceUse, Holder, Occupancy};

use crate::Colour;
use crate::amount;
use crate::layout::{CacheLayout, CoreLayout, CpuCell, CpuUse, MachineLayout, NodeLayout};
use crate::palette;
use crate::text::{UnbrokenText, count, fill};

/// Cores between two gaps, so that the eye can count.
const GROUP: usize = 4;
/// The column where cores and devices begin.
const MARGIN: usize = 9;

/// The content of the legend below the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legend {
    /// The signs and names of the pods.
    Names,
    /// Also what each pod holds.
    Holdings,
    /// The same for commands, which are not in pods.
    Commands,
}

impl Legend {
    /// What one holder and several holders are called.
    fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Names | Self::Holdings => ("pod", "pods"),
            Self::Commands => ("command", "commands"),
        }
    }
}

/// Draws every node, then the legend. Lines stay within `width` columns as far as names allow.
#[must_use]
pub fn draw(
    layout: &MachineLayout,
    occupancy: &Occupancy,
    legend: Legend,
    width: usize,
    colour: Colour,
) -> String {
    let caches = layout.nodes.iter().flat_map(|node| &node.caches);
    let ids = caches.filter_map(|cache| cache.id);
    let style = Style {
        width,
        colour,
        bare: layout.bare,
        digits: ids.map(|id| id.to_string().len()).max().unwrap_or(0),
    };
    let mut text = String::new();
    let mut nodes = layout.nodes.as_slice();
    while let Some((node, rest)) = nodes.split_first() {
        let empty = nodes.iter().take_while(|node| node.is_empty()).count();
        if empty > 1 {
            let ids: NodeSet = nodes[..empty].iter().map(|node| node.id).collect();
            let _ = writeln!(text, "NUMA nodes {ids}  no CPUs  no memory");
            nodes = &nodes[empty..];
        } else {
            draw_node(&mut text, node, style);
            nodes = rest;
        }
    }
    if !layout.far_devices.is_empty() {
        text.push_str("near no NUMA node\n");
        let devices: Vec<&DeviceUse> = layout.far_devices.iter().collect();
        draw_devices(&mut text, &devices, style);
    }
    draw_signs(&mut text, layout, occupancy, legend, width);
    draw_holders(&mut text, occupancy, legend, width, colour);
    text
}

/// The style of one picture.
#[derive(Clone, Copy)]
struct Style {
    width: usize,
    colour: Colour,
    /// See [`MachineLayout::bare`].
    bare: bool,
    /// The number of digits of the longest cache ID.
    digits: usize,
}

fn draw_node(text: &mut String, node: &NodeLayout, style: Style) {
    let mut facts = vec![format!("NUMA node {}", node.id)];
    match node.sockets.as_slice() {
        [] => {}
        [socket] => facts.push(format!("socket {socket}")),
        several => {
            let ids: Vec<String> = several.iter().map(u32::to_string).collect();
            facts.push(format!("sockets {}", ids.join(",")));
        }
    }
    match node.cpus().count() {
        0 => facts.push("no CPUs".into()),
        all if style.bare => facts.push(count(all, "CPU", "CPUs")),
        all => facts.push(format!("{} of {all} CPUs free", node.free_cpus())),
    }
    for row in node.memory.iter().filter(|row| row.total > 0) {
        let amount = match style.bare {
            true => amount::bytes(row.total),
            false => amount::free_of(row.free, row.allocatable),
        };
        facts.push(format!("{} {amount}", row.resource));
    }
    // Without a row the memory is unknown.
    if !node.memory.is_empty() && node.memory.iter().all(|row| row.total == 0) {
        facts.push("no memory".into());
    }
    let facts: Vec<UnbrokenText> = facts.into_iter().map(UnbrokenText::plain).collect();
    fill(text, &facts, 0, 2, 2, style.width);
    draw_caches(text, &node.caches, style);
    for devices in node.devices_by_resource().values() {
        draw_devices(text, devices, style);
    }
}

fn draw_devices(text: &mut String, devices: &[&DeviceUse], style: Style) {
    let words: Vec<UnbrokenText> = devices
        .iter()
        .map(|device| device_word(device, style.colour))
        .collect();
    text.push_str("  ");
    fill(text, &words, 2, MARGIN, 2, style.width);
}

fn device_word(device: &DeviceUse, colour: Colour) -> UnbrokenText {
    let (state, holder) = match (device.healthy, device.holder) {
        (false, _) => ('!', None),
        (true, None) => ('·', None),
        (true, Some(holder)) => (palette::sign(holder), Some(holder)),
    };
    let mut word = UnbrokenText::plain(format!("{} ", device.id));
    word.text
        .push_str(&paint(&state.to_string(), holder, colour));
    word.columns += 1;
    word
}

/// Small caches are drawn side by side; a large one, or cores without a cache, take as many lines as they need.
fn draw_caches(text: &mut String, caches: &[CacheLayout], style: Style) {
    let Style {
        width,
        colour,
        digits,
        ..
    } = style;
    let label = |cache: &CacheLayout| match cache.id {
        Some(id) => format!("L3 {id:<digits$}"),
        None => "cores".to_owned(),
    };
    let small = |cache: &CacheLayout| cache.id.is_some() && cache.cores.len() <= 4 * GROUP;
    if caches.len() > 1 && caches.iter().all(small) {
        let words: Vec<UnbrokenText> = caches
            .iter()
            .map(|cache| {
                let label = label(cache);
                let gaps = cache.cores.len().saturating_sub(1) / GROUP;
                UnbrokenText {
                    columns: label.chars().count() + 1 + cache.cores.len() + gaps,
                    text: format!("{label} {}", cores(&cache.cores, colour)),
                }
            })
            .collect();
        text.push_str("  ");
        fill(text, &words, 2, 2, 3, width);
        return;
    }
    let room = width.saturating_sub(MARGIN - 1).max(GROUP + 1);
    let per_line = (room / (GROUP + 1) * GROUP).max(GROUP);
    for cache in caches {
        for (line, row) in cache.cores.chunks(per_line).enumerate() {
            let label = if line == 0 {
                label(cache)
            } else {
                String::new()
            };
            let _ = writeln!(text, "  {label:<6} {}", cores(row, colour));
        }
    }
}

/// One sign per core, in groups.
fn cores(cores: &[CoreLayout], colour: Colour) -> String {
    let mut text = String::new();
    for (index, core) in cores.iter().enumerate() {
        if index > 0 && index % GROUP == 0 {
            text.push(' ');
        }
        let (glyph, holder) = glyph(&core.cpus);
        text.push_str(&paint(&glyph.to_string(), holder, colour));
    }
    text
}

/// The sign of one core, and the holder whose colour it has.
fn glyph(core: &[CpuCell]) -> (char, Option<usize>) {
    let held = |cpu: &CpuCell| match cpu.used_by {
        CpuUse::Held(holder) => Some(holder),
        CpuUse::Free | CpuUse::Reserved => None,
    };
    let mut holders: Vec<usize> = core.iter().filter_map(held).collect();
    let threads_held = holders.len();
    holders.sort_unstable();
    holders.dedup();
    match holders.as_slice() {
        [] if core.iter().all(|cpu| cpu.used_by == CpuUse::Reserved) => ('#', None),
        [] if core.iter().any(|cpu| cpu.used_by == CpuUse::Reserved) => ('+', None),
        [] => ('·', None),
        [holder] if threads_held == core.len() => (palette::sign(*holder), Some(*holder)),
        [holder] => (palette::part_sign(*holder), Some(*holder)),
        [first, ..] => ('*', Some(*first)),
    }
}

fn draw_holders(
    text: &mut String,
    occupancy: &Occupancy,
    legend: Legend,
    width: usize,
    colour: Colour,
) {
    let mut names = Vec::new();
    for (index, holder) in occupancy.holders.iter().enumerate().take(palette::SIGNS) {
        let sign = paint(&palette::sign(index).to_string(), Some(index), colour);
        if legend == Legend::Names {
            names.push(UnbrokenText {
                text: format!("{sign} {}", holder.name),
                columns: 2 + holder.name.chars().count(),
            });
            continue;
        }
        let devices = occupancy
            .devices
            .iter()
            .filter(|device| device.holder == Some(index));
        let devices: Vec<&str> = devices.map(|device| device.id.as_str()).collect();
        let _ = write!(text, "{sign} ");
        fill(text, &holdings(holder, &devices), 2, 4, 2, width);
    }
    if !names.is_empty() {
        fill(text, &names, 0, 0, 3, width);
    }
    let (one, several) = legend.nouns();
    if let Some(unsigned @ 1..) = occupancy.holders.len().checked_sub(palette::SIGNS) {
        let more = count(unsigned, &format!("more {one}"), &format!("more {several}"));
        let _ = writeln!(text, "{} {more}", palette::sign(palette::SIGNS));
    }
    if occupancy.shared_only_pods > 0 {
        let pods = count(occupancy.shared_only_pods, one, several);
        let _ = writeln!(text, "  {pods} in the shared pool");
    }
}

/// The meaning of the signs that occur in the picture.
fn draw_signs(
    text: &mut String,
    layout: &MachineLayout,
    occupancy: &Occupancy,
    legend: Legend,
    width: usize,
) {
    let caches = layout.nodes.iter().flat_map(|node| &node.caches);
    let used: Vec<char> = caches
        .flat_map(|cache| cache.cores.iter().map(|core| glyph(&core.cpus).0))
        .collect();
    let mut signs = Vec::new();
    let several_holders = format!("threads of several {}", legend.nouns().1);
    for (sign, meaning) in [
        ('·', "free"),
        ('#', "reserved"),
        ('+', "partly reserved"),
        ('*', several_holders.as_str()),
    ] {
        if used.contains(&sign) {
            signs.push(UnbrokenText::plain(format!("{sign} {meaning}")));
        }
    }
    if used.iter().any(char::is_ascii_lowercase) {
        signs.push(UnbrokenText::plain("a-z some threads of the core"));
    }
    if occupancy.devices.iter().any(|device| !device.healthy) {
        signs.push(UnbrokenText::plain("! unhealthy"));
    }
    if !layout.bare && !signs.is_empty() {
        text.push('\n');
        fill(text, &signs, 0, 0, 3, width);
    }
}

fn holdings(holder: &Holder, devices: &[&str]) -> Vec<UnbrokenText> {
    let mut words = vec![UnbrokenText::plain(&*holder.name)];
    if !holder.cpus.is_empty() {
        words.push(UnbrokenText::plain(format!("CPUs {}", holder.cpus)));
    }
    for held in &holder.memory {
        let bytes = amount::bytes(held.bytes);
        let (resource, nodes) = (&held.resource, named(held.nodes));
        words.push(UnbrokenText::plain(format!(
            "{resource} {bytes} on {nodes}"
        )));
    }
    words.extend(devices.iter().map(|id| UnbrokenText::plain(*id)));
    words
}

/// `node 0`, `nodes 0-1`.
fn named(nodes: NodeSet) -> String {
    match nodes.iter().collect::<Vec<NodeId>>().as_slice() {
        [node] => format!("node {node}"),
        _ => format!("nodes {nodes}"),
    }
}

fn paint(text: &str, holder: Option<usize>, colour: Colour) -> String {
    match (colour, holder) {
        (Colour::Ansi, Some(holder)) => {
            format!("\u{1b}[30;48;5;{}m{text}\u{1b}[0m", palette::ansi(holder))
        }
        _ => text.to_owned(),
    }
}
