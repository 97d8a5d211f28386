//! The picture for browsers: sockets around NUMA nodes around caches around cores, coloured by pod.
//!
//! Everything is placed on a grid of fixed sizes, so that the same values give the same bytes; every
//! piece of text from outside is escaped.

use std::fmt::Write;

use pinfold_core::occupancy::Occupancy;

use crate::amount;
use crate::palette;
use crate::plan::{Plan, PlannedCpu, PlannedNode, Seat};

/// Edge of one core.
const CORE: usize = 18;
/// Gap between cores.
const GAP: usize = 3;
/// Cores beside each other inside one cache.
const ACROSS: usize = 8;
/// Space around things.
const PAD: usize = 10;
/// Height of a line of text.
const LINE: usize = 16;
/// Width of a node's box.
const NODE_WIDTH: usize = 2 * PAD + 2 * (ACROSS * (CORE + GAP)) + PAD;
/// Nodes beside each other.
const NODES_ACROSS: usize = 2;

/// Draws the plan as one SVG document.
#[must_use]
pub fn draw(plan: &Plan, occupancy: &Occupancy, title: &str) -> String {
    let mut body = String::new();
    let mut y = PAD + LINE + PAD;
    for row in plan.nodes.chunks(NODES_ACROSS) {
        let height = row.iter().map(node_height).max().unwrap_or(0);
        for (column, node) in row.iter().enumerate() {
            draw_node(
                &mut body,
                node,
                PAD + column * (NODE_WIDTH + PAD),
                y,
                height,
            );
        }
        y += height + PAD;
    }
    y = draw_legend(&mut body, plan, occupancy, y);
    let across = plan.nodes.len().clamp(1, NODES_ACROSS);
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

fn facts(node: &PlannedNode) -> Vec<String> {
    let mut lines = Vec::new();
    for row in node.memory.iter().filter(|row| row.total > 0) {
        lines.push(format!(
            "{} {}",
            row.resource,
            amount::free_of(row.free, row.total)
        ));
    }
    lines
}

fn cache_rows(node: &PlannedNode) -> usize {
    node.caches
        .chunks(2)
        .map(|pair| {
            pair.iter()
                .map(|cache| cache.cores.len().div_ceil(ACROSS))
                .max()
                .unwrap_or(0)
                + 1
        })
        .sum()
}

fn node_height(node: &PlannedNode) -> usize {
    let devices = usize::from(!node.devices.is_empty()) * device_lines(node);
    PAD + LINE * (1 + facts(node).len() + devices) + cache_rows(node) * (CORE + GAP) + PAD
}

fn device_lines(node: &PlannedNode) -> usize {
    node.devices.len().div_ceil(DEVICES_ACROSS)
}

/// Devices beside each other.
const DEVICES_ACROSS: usize = 4;

fn draw_node(svg: &mut String, node: &PlannedNode, x: usize, y: usize, height: usize) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#f6f8fa\" stroke=\"#8c959f\"/>"
    );
    let mut baseline = y + PAD + 10;
    let sockets: Vec<String> = node.sockets.iter().map(u32::to_string).collect();
    let head = match (sockets.is_empty(), node.cpus().count()) {
        (false, all) => format!(
            "NUMA node {}  socket {}  {} of {all} CPUs free",
            node.id,
            sockets.join(","),
            node.free_cpus()
        ),
        (true, _) => format!("NUMA node {}  no CPUs", node.id),
    };
    text(svg, x + PAD, baseline, &head, true);
    for line in facts(node) {
        baseline += LINE;
        text(svg, x + PAD, baseline, &line, false);
    }
    let mut top = baseline + PAD;
    for pair in node.caches.chunks(2) {
        let mut rows = 0;
        for (column, cache) in pair.iter().enumerate() {
            let left = x + PAD + column * (ACROSS * (CORE + GAP) + PAD);
            let label = cache.id.map_or_else(String::new, |id| format!("L3 {id}"));
            text(svg, left, top + 12, &label, false);
            for (index, core) in cache.cores.iter().enumerate() {
                let core_x = left + index % ACROSS * (CORE + GAP);
                let core_y = top + LINE + index / ACROSS * (CORE + GAP);
                draw_core(svg, core, core_x, core_y);
            }
            rows = rows.max(cache.cores.len().div_ceil(ACROSS));
        }
        top += LINE + rows * (CORE + GAP);
    }
    for (index, device) in node.devices.iter().enumerate() {
        let left = x + PAD + index % DEVICES_ACROSS * ((NODE_WIDTH - 2 * PAD) / DEVICES_ACROSS);
        let row = top + index / DEVICES_ACROSS * LINE;
        let fill = device.holder.map_or("#ffffff", palette::hex);
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{row}\" width=\"10\" height=\"10\" fill=\"{fill}\" stroke=\"#57606a\"><title>{}</title></rect>",
            escape(&format!("{} {}", device.resource, device.id))
        );
        text(svg, left + 14, row + 10, &shorten(&device.id, 13), false);
    }
}

/// One core: its threads from top to bottom.
fn draw_core(svg: &mut String, core: &[PlannedCpu], x: usize, y: usize) {
    let threads = core.len().max(1);
    for (index, cpu) in core.iter().enumerate() {
        let top = y + index * CORE / threads;
        let height = (index + 1) * CORE / threads - index * CORE / threads;
        let (fill, who) = match cpu.seat {
            Seat::Free => ("#ffffff", "free".to_owned()),
            Seat::Reserved => ("#afb8c1", "reserved".to_owned()),
            Seat::Held(holder) => (
                palette::hex(holder),
                format!("pod {}", palette::sign(holder)),
            ),
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{CORE}\" height=\"{height}\" fill=\"{fill}\" stroke=\"#57606a\" stroke-width=\"0.5\"><title>CPU {}: {who}</title></rect>",
            cpu.id
        );
    }
}

fn draw_legend(svg: &mut String, plan: &Plan, occupancy: &Occupancy, mut y: usize) -> usize {
    for (index, name) in plan.holders.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<rect x=\"{PAD}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\" stroke=\"#57606a\"/>",
            palette::hex(index)
        );
        let mut line = format!("{} {name}", palette::sign(index));
        if let Some(holder) = occupancy
            .holders
            .get(index)
            .filter(|holder| !holder.cpus.is_empty())
        {
            let _ = write!(line, "  CPUs {}", holder.cpus);
        }
        text(svg, PAD + 18, y + 10, &line, false);
        y += LINE;
    }
    y + PAD
}

fn text(svg: &mut String, x: usize, y: usize, words: &str, bold: bool) {
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\"{weight}>{}</text>",
        escape(words)
    );
}

fn shorten(words: &str, most: usize) -> String {
    match words.chars().count() > most {
        true => words.chars().take(most - 1).chain(['…']).collect(),
        false => words.to_owned(),
    }
}

/// Text that cannot break out of an element or attribute; control characters, which XML has no way to
/// write, become the replacement character.
fn escape(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for character in words.chars() {
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
    fn names_from_outside_cannot_break_out_of_the_picture() {
        assert_eq!(
            escape("</title><script>\"'&\u{1}"),
            "&lt;/title&gt;&lt;script&gt;&quot;&#39;&amp;\u{fffd}"
        );
    }
}
