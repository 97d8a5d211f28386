//! The box of one NUMA node: its memory, its caches with their cores, and its devices.

use pinfold_core::occupancy::{DeviceUse, Occupancy};

use super::canvas::{Canvas, Fill, Font};
use super::memory_bar::{self, MemoryBar};
use super::{HEADING, LINE, PAD};
use crate::layout::{CacheLayout, CoreLayout, CpuCell, CpuUse, MachineLayout, NodeLayout};
use crate::palette;

/// The width of a CPU.
const CPU_WIDTH: usize = 34;
/// The height of a CPU.
const CPU_HEIGHT: usize = 14;
/// The height of the number of a core.
const CORE_HEADING: usize = 10;
/// The gap between cores and between caches.
const GAP: usize = 4;
/// The height of the number of a cache.
const CACHE_HEADING: usize = 13;

/// What all NUMA nodes of a picture have in common.
pub(super) struct NodeStyle<'a> {
    layout: &'a MachineLayout,
    occupancy: &'a Occupancy,
    /// The width of a NUMA node.
    pub(super) width: usize,
}

impl<'a> NodeStyle<'a> {
    /// NUMA nodes with many cores are twice as wide.
    pub(super) fn of(layout: &'a MachineLayout, occupancy: &'a Occupancy) -> Self {
        let cores = |node: &NodeLayout| -> usize {
            node.caches.iter().map(|cache| cache.cores.len()).sum()
        };
        let most = layout.nodes.iter().map(cores).max().unwrap_or(0);
        let across = match most {
            0..=32 => 8,
            33..=64 => 14,
            _ => 16,
        };
        Self {
            layout,
            occupancy,
            width: 2 * PAD + across * (CPU_WIDTH + GAP) + 3 * GAP,
        }
    }
}

/// A NUMA node with its content drawn at the origin.
pub(super) struct NodeBox {
    pub(super) width: usize,
    pub(super) height: usize,
    content: Canvas,
}

impl NodeBox {
    pub(super) fn new(node: &NodeLayout, style: &NodeStyle<'_>) -> Self {
        let mut content = Canvas::default();
        let bare = style.layout.bare;
        let mut heading = format!("NUMA node {}", node.id);
        if let [_, _, ..] = node.sockets.as_slice() {
            let ids: Vec<String> = node.sockets.iter().map(u32::to_string).collect();
            heading.push_str(&format!(" (sockets {})", ids.join(",")));
        }
        content.text((PAD, 15), Font::Bold, "t", &heading);
        let cpus = match node.cpus().count() {
            0 => "no CPUs".to_owned(),
            all if bare => format!("{all} CPUs"),
            all => format!("{} of {all} CPUs free", node.free_cpus()),
        };
        content.text_end((style.width - PAD, 15), Font::Small, "m", &cpus);
        let mut y = HEADING + 2;
        let inner = style.width - 2 * PAD;
        for row in node.memory.iter().filter(|row| row.total > 0) {
            let bar = MemoryBar::new(row, style.occupancy, bare, inner);
            content.text((PAD, y + 10), Font::Small, "t", &bar.label);
            bar.draw(&mut content, (PAD, y + LINE - 2));
            y += LINE - 2 + memory_bar::HEIGHT + 6;
        }
        y = draw_caches(&mut content, &node.caches, style, y);
        for devices in node.devices_by_resource().values() {
            y = draw_devices(&mut content, devices, style.layout, (PAD, y), inner) + GAP;
        }
        Self {
            width: style.width,
            height: y + PAD - GAP,
            content,
        }
    }

    pub(super) fn draw(&self, canvas: &mut Canvas, at: (usize, usize), height: usize) {
        canvas.rect(at, (self.width, height), "n", None);
        canvas.group(at, &self.content);
    }
}

/// Places the caches from left to right, in as many rows as they need. Returns the lower edge.
fn draw_caches(
    canvas: &mut Canvas,
    caches: &[CacheLayout],
    style: &NodeStyle<'_>,
    top: usize,
) -> usize {
    let inner = style.width - 2 * PAD;
    let most = (inner - 2 * GAP) / (CPU_WIDTH + GAP);
    let (mut x, mut y, mut row_height) = (PAD, top, 0);
    for cache in caches {
        let across = cache.cores.len().clamp(1, most);
        let width = across * (CPU_WIDTH + GAP) + GAP;
        if x > PAD && x + width > PAD + inner {
            (x, y, row_height) = (PAD, y + row_height + GAP, 0);
        }
        let height = draw_cache(canvas, cache, style, (x, y), (width, across));
        row_height = row_height.max(height);
        x += width + GAP;
    }
    match caches.is_empty() {
        true => top,
        false => y + row_height + GAP,
    }
}

/// Draws one cache and returns its height.
fn draw_cache(
    canvas: &mut Canvas,
    cache: &CacheLayout,
    style: &NodeStyle<'_>,
    at: (usize, usize),
    (width, across): (usize, usize),
) -> usize {
    let mut content = Canvas::default();
    let (left, mut y) = match cache.id {
        Some(id) => {
            content.text((GAP, 10), Font::Tiny, "m", &format!("L3 {id}"));
            (GAP, CACHE_HEADING)
        }
        None => (0, 0),
    };
    for row in cache.cores.chunks(across) {
        let threads = row.iter().map(|core| core.cpus.len()).max().unwrap_or(0);
        for (column, core) in row.iter().enumerate() {
            let x = left + column * (CPU_WIDTH + GAP);
            draw_core(&mut content, core, style.layout, (x, y));
        }
        y += CORE_HEADING + threads * CPU_HEIGHT + GAP;
    }
    if cache.id.is_some() {
        canvas.rect(at, (width, y), "g", None);
    }
    canvas.group(at, &content);
    y
}

fn draw_core(
    canvas: &mut Canvas,
    core: &CoreLayout,
    layout: &MachineLayout,
    (x, y): (usize, usize),
) {
    let height = CORE_HEADING + core.cpus.len() * CPU_HEIGHT;
    canvas.rect((x, y), (CPU_WIDTH, height), "c", None);
    let number = format!("core {}", core.id);
    let number = match Font::Tiny.width(&number) <= CPU_WIDTH {
        true => number,
        false => core.id.to_string(),
    };
    canvas.text_middle((x + CPU_WIDTH / 2, y + 8), Font::Tiny, "m", &number);
    for (index, cpu) in core.cpus.iter().enumerate() {
        let at = (x, y + CORE_HEADING + index * CPU_HEIGHT);
        draw_cpu(canvas, core, *cpu, layout, at);
    }
}

fn draw_cpu(
    canvas: &mut Canvas,
    core: &CoreLayout,
    cpu: CpuCell,
    layout: &MachineLayout,
    (x, y): (usize, usize),
) {
    let (class, holder, letters, text) = match cpu.used_by {
        CpuUse::Free => (Fill::Class("f"), "free".to_owned(), "·".to_owned(), "m"),
        CpuUse::Reserved => (Fill::Class("r"), "reserved".to_owned(), "#".to_owned(), "k"),
        CpuUse::Held(holder) => (
            Fill::Pod(holder),
            holder_name(layout, holder),
            palette::letters(holder),
            "k",
        ),
    };
    let mut title = format!("CPU {}, core {}", cpu.id, core.id);
    if !layout.bare {
        title.push_str(&format!(": {holder}"));
    }
    canvas.rect((x, y), (CPU_WIDTH, CPU_HEIGHT), class, Some(&title));
    let id = cpu.id.to_string();
    if layout.bare {
        canvas.text_middle((x + CPU_WIDTH / 2, y + 10), Font::Number, "t", &id);
        return;
    }
    canvas.text((x + 2, y + 10), Font::Number, text, &id);
    canvas.text_end((x + CPU_WIDTH - 2, y + 10), Font::Letter, text, &letters);
}

/// The letters and the name of a pod.
fn holder_name(layout: &MachineLayout, holder: usize) -> String {
    let name = layout.holders.get(holder).map_or("", String::as_str);
    format!("{} {name}", palette::letters(holder))
}

/// Places devices from left to right, each with its name, in as many rows as they need. Returns the lower edge.
pub(super) fn draw_devices(
    canvas: &mut Canvas,
    devices: &[&DeviceUse],
    layout: &MachineLayout,
    (left, top): (usize, usize),
    width: usize,
) -> usize {
    const HEIGHT: usize = 16;
    let (mut x, mut y) = (left, top);
    for device in devices {
        let (class, text, state, letters) = match (device.healthy, device.holder) {
            (false, _) => (
                Fill::Class("r"),
                "k",
                "unhealthy".to_owned(),
                "!".to_owned(),
            ),
            (true, None) => (Fill::Class("f"), "t", "free".to_owned(), String::new()),
            (true, Some(holder)) => (
                Fill::Pod(holder),
                "k",
                holder_name(layout, holder),
                palette::letters(holder),
            ),
        };
        let more = match letters.as_str() {
            "" => 0,
            letters => Font::Letter.width(letters) + GAP,
        };
        let name = Font::Small.fit(&device.id, width.saturating_sub(2 * GAP + more));
        let wide = Font::Small.width(&name) + 2 * GAP + more;
        if x > left && x + wide > left + width {
            (x, y) = (left, y + HEIGHT + GAP);
        }
        let mut title = format!("{} {}", device.resource, device.id);
        if !layout.bare {
            title.push_str(&format!(": {state}"));
        }
        canvas.rect((x, y), (wide, HEIGHT), class, Some(&title));
        canvas.text((x + GAP, y + 12), Font::Small, text, &name);
        canvas.text_end((x + wide - GAP, y + 12), Font::Letter, text, &letters);
        x += wide + GAP;
    }
    y + HEIGHT
}
