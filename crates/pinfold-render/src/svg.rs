//! The SVG picture: sockets around NUMA nodes around caches around cores, coloured by pod.
//!
//! Everything is placed on a grid of fixed sizes, so that the same values give the same bytes; all input text is
//! escaped.

use std::fmt::Write;

use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::Occupancy;

use crate::amount;
use crate::layout::{CacheLayout, CpuCell, CpuUse, MachineLayout, NodeLayout};
use crate::palette;
use crate::text::count;

/// The edge length of one core.
const CORE: usize = 18;
/// Gap between cores.
const GAP: usize = 3;
/// The number of cores side by side inside one cache.
const ACROSS: usize = 8;
/// The padding around boxes.
const PAD: usize = 10;
/// Height of a line of text.
const LINE: usize = 16;
/// Width of a node's box.
const NODE_WIDTH: usize = 2 * PAD + 2 * (ACROSS * (CORE + GAP)) + PAD;
/// The number of nodes side by side.
const NODES_ACROSS: usize = 2;

/// Draws the layout as one SVG document.
#[must_use]
pub fn draw(layout: &MachineLayout, occupancy: &Occupancy, title: &str) -> String {
    let mut body = String::new();
    let mut y = PAD + LINE + PAD;
    let shown: Vec<&NodeLayout> = layout
        .nodes
        .iter()
        .filter(|node| !node.is_empty())
        .collect();
    for row in shown.chunks(NODES_ACROSS) {
        let heights = row.iter().map(|node| node_height(node, layout.bare));
        let height = heights.max().unwrap_or(0);
        for (column, node) in row.iter().enumerate() {
            draw_node(
                &mut body,
                node,
                layout.bare,
                (PAD + column * (NODE_WIDTH + PAD), y),
                height,
            );
        }
        y += height + PAD;
    }
    let places: NodeSet = layout
        .nodes
        .iter()
        .filter(|node| node.is_empty())
        .map(|node| node.id)
        .collect();
    if !places.is_empty() {
        let line = format!("without CPUs and memory: NUMA nodes {places}");
        text(&mut body, PAD, y + 10, &line, false);
        y += LINE + PAD;
    }
    y = draw_legend(&mut body, layout, occupancy, y);
    let across = shown.len().clamp(1, NODES_ACROSS);
    let width = PAD + across * (NODE_WIDTH + PAD);
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" \
         viewBox=\"0 0 {width} {y}\" font-family=\"ui-monospace, monospace\" font-size=\"12\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        title = escape(title),
    );
    text(&mut svg, PAD, PAD + 12, title, true);
    svg.push_str(&body);
    svg.push_str("</svg>\n");
    svg
}

fn facts(node: &NodeLayout, bare: bool) -> Vec<String> {
    let rows = node.memory.iter().filter(|row| row.total > 0);
    rows.map(|row| match bare {
        true => format!("{} {}", row.resource, amount::bytes(row.total)),
        false => {
            let free = amount::free_of(row.free, row.allocatable);
            format!("{} {free}", row.resource)
        }
    })
    .collect()
}

/// Caches are drawn in pairs; a single one has the whole width.
fn caches_across(node: &NodeLayout) -> usize {
    node.caches.len().clamp(1, 2)
}

fn cores_across(node: &NodeLayout) -> usize {
    2 * ACROSS / caches_across(node)
}

/// The height of some caches side by side: a label, if they have one, and the rows of cores.
fn caches_height(node: &NodeLayout, caches: &[CacheLayout]) -> usize {
    let rows = caches
        .iter()
        .map(|cache| cache.cores.len().div_ceil(cores_across(node)));
    label_height(caches) + rows.max().unwrap_or(0) * (CORE + GAP)
}

fn label_height(caches: &[CacheLayout]) -> usize {
    match caches.iter().any(|cache| cache.id.is_some()) {
        true => LINE,
        false => 0,
    }
}

fn node_height(node: &NodeLayout, bare: bool) -> usize {
    let caches = node.caches.chunks(caches_across(node));
    let caches: usize = caches.map(|caches| caches_height(node, caches)).sum();
    PAD + LINE * (1 + facts(node, bare).len() + device_lines(node)) + PAD + caches + PAD
}

fn device_lines(node: &NodeLayout) -> usize {
    node.devices.len().div_ceil(DEVICES_ACROSS)
}

/// The number of devices side by side.
const DEVICES_ACROSS: usize = 4;
/// The number of characters of a device's name that fit.
const ID_WIDTH: usize = 9;
/// The colour of free CPUs and devices.
const FREE: &str = "#ffffff";
/// The colour of reserved CPUs.
const RESERVED: &str = "#afb8c1";

fn draw_node(
    svg: &mut String,
    node: &NodeLayout,
    bare: bool,
    (x, y): (usize, usize),
    height: usize,
) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#f6f8fa\" stroke=\"#8c959f\"/>"
    );
    let mut baseline = y + PAD + 10;
    let sockets: Vec<String> = node.sockets.iter().map(u32::to_string).collect();
    let cpus = match node.cpus().count() {
        0 => "no CPUs".to_owned(),
        all if bare => format!("{all} CPUs"),
        all => format!("{} of {all} CPUs free", node.free_cpus()),
    };
    let head = match sockets.is_empty() {
        true => format!("NUMA node {}, {cpus}", node.id),
        false => format!(
            "NUMA node {}, socket {}, {cpus}",
            node.id,
            sockets.join(",")
        ),
    };
    text(svg, x + PAD, baseline, &head, true);
    for line in facts(node, bare) {
        baseline += LINE;
        text(svg, x + PAD, baseline, &line, false);
    }
    let mut top = baseline + PAD;
    for caches in node.caches.chunks(caches_across(node)) {
        for (column, cache) in caches.iter().enumerate() {
            let left = x + PAD + column * (ACROSS * (CORE + GAP) + PAD);
            let label = cache.id.map_or_else(String::new, |id| format!("L3 {id}"));
            text(svg, left, top + 11, &label, false);
            for (index, core) in cache.cores.iter().enumerate() {
                let (row, column) = (index / cores_across(node), index % cores_across(node));
                let core_y = top + label_height(caches) + row * (CORE + GAP);
                draw_core(svg, core, left + column * (CORE + GAP), core_y);
            }
        }
        top += caches_height(node, caches);
    }
    top += GAP;
    for (index, device) in node.devices.iter().enumerate() {
        let left = x + PAD + index % DEVICES_ACROSS * ((NODE_WIDTH - 2 * PAD) / DEVICES_ACROSS);
        let row = top + index / DEVICES_ACROSS * LINE;
        let fill = match (device.healthy, device.holder) {
            (false, _) => RESERVED,
            (true, holder) => holder.map_or(FREE, palette::hex),
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{row}\" width=\"10\" height=\"10\" fill=\"{fill}\" stroke=\"#57606a\"><title>{}</title></rect>",
            escape(&format!("{} {}", device.resource, device.id))
        );
        text(
            svg,
            left + 14,
            row + 9,
            &end_of(&device.id, ID_WIDTH),
            false,
        );
    }
}

/// One core: its threads from top to bottom.
fn draw_core(svg: &mut String, core: &[CpuCell], x: usize, y: usize) {
    let threads = core.len().max(1);
    for (index, cpu) in core.iter().enumerate() {
        let top = y + index * CORE / threads;
        let height = (index + 1) * CORE / threads - index * CORE / threads;
        let (fill, holder) = match cpu.used_by {
            CpuUse::Free => (FREE, "free".to_owned()),
            CpuUse::Reserved => (RESERVED, "reserved".to_owned()),
            CpuUse::Held(holder) => (
                palette::hex(holder),
                format!("pod {}", palette::sign(holder)),
            ),
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{CORE}\" height=\"{height}\" fill=\"{fill}\" stroke=\"#57606a\" stroke-width=\"0.5\"><title>CPU {}: {holder}</title></rect>",
            cpu.id
        );
    }
}

fn draw_legend(svg: &mut String, layout: &MachineLayout, occupancy: &Occupancy, y: usize) -> usize {
    if layout.bare {
        return y;
    }
    let mut rows = vec![(FREE, "free".to_owned())];
    if !occupancy.reserved.is_empty() {
        rows.push((RESERVED, format!("reserved, CPUs {}", occupancy.reserved)));
    }
    for (index, holder) in occupancy.holders.iter().enumerate().take(palette::SIGNS) {
        let mut line = format!("{} {}", palette::sign(index), holder.name);
        if !holder.cpus.is_empty() {
            let _ = write!(line, ", CPUs {}", holder.cpus);
        }
        for held in &holder.memory {
            let _ = write!(line, ", {} {}", held.resource, amount::bytes(held.bytes));
        }
        rows.push((palette::hex(index), line));
    }
    for (row, (fill, line)) in rows.iter().enumerate() {
        let y = y + row * LINE;
        let _ = writeln!(
            svg,
            "<rect x=\"{PAD}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{fill}\" stroke=\"#57606a\"/>"
        );
        text(svg, PAD + 18, y + 10, line, false);
    }
    let mut y = y + rows.len() * LINE;
    let unsigned = occupancy.holders.len().saturating_sub(palette::SIGNS);
    let more = [
        (unsigned, "more"),
        (occupancy.shared_only_pods, "in the shared pool"),
    ];
    for (pods, what) in more.into_iter().filter(|(pods, _)| *pods > 0) {
        let pods = count(pods, "pod", "pods");
        text(svg, PAD + 18, y + 10, &format!("{pods} {what}"), false);
        y += LINE;
    }
    y + PAD
}

fn text(svg: &mut String, x: usize, y: usize, text: &str, bold: bool) {
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\"{weight}>{}</text>",
        escape(text)
    );
}

/// The end of a long name, where names of similar devices differ.
fn end_of(name: &str, most: usize) -> String {
    let length = name.chars().count();
    match length > most {
        true => ['…']
            .into_iter()
            .chain(name.chars().skip(length + 1 - most))
            .collect(),
        false => name.to_owned(),
    }
}

/// Escapes text so that it cannot break out of an element or attribute; control characters, which XML cannot represent,
/// become the replacement character.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn input_names_are_escaped() {
        assert_eq!(
            escape("</title><script>\"'&\u{1}"),
            "&lt;/title&gt;&lt;script&gt;&quot;&#39;&amp;\u{fffd}"
        );
    }
}
