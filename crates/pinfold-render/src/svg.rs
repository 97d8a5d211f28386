//! The SVG picture: sockets around NUMA nodes around L3 caches around cores, coloured and lettered by pod.
//!
//! ```text
//! title, and the machine in one line
//! ┌ socket 0 ───────────────────────────────┐  ┌ socket 1 ──
//! │ ┌ NUMA node 0 ────┐ ┌ NUMA node 1 ────┐ │  │
//! │ │ memory bar      │ │                 │ │  │
//! │ │ ┌ L3 0 ───────┐ │ │                 │ │  │
//! │ │ │ cores, CPUs │ │ │                 │ │  │
//! │ │ devices         │ │                 │ │  │
//! ```
//!
//! Every size is a whole number and follows from the values alone, so that the same values give the same bytes. All
//! input text is escaped. Colours are classes, so that the picture is dark where the reader's browser is.

use std::collections::BTreeMap;

use pinfold_core::machine::Machine;
use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::Occupancy;

use crate::layout::{MachineLayout, NodeLayout};
use crate::text::count;
use crate::{amount, palette};

mod canvas;
mod distances;
mod legend;
mod memory_bar;
mod node;

use canvas::{Canvas, Font};

/// The padding around boxes and between them.
const PAD: usize = 10;
/// The height of a line of text.
const LINE: usize = 16;
/// The height of the heading of a box.
const HEADING: usize = 20;
/// The width that a picture has at most, if one socket is not wider.
const WIDEST: usize = 1500;

/// What a picture says besides the machine and its pods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caption<'a> {
    /// The title: the name of the machine or node.
    pub title: &'a str,
    /// A line below the title; may be empty.
    pub subtitle: &'a str,
    /// The machine whose distances between NUMA nodes are drawn.
    pub distances: Option<&'a Machine>,
}

/// Draws the layout as one SVG document.
#[must_use]
pub fn draw(layout: &MachineLayout, occupancy: &Occupancy, caption: Caption<'_>) -> String {
    let mut canvas = Canvas::default();
    let shown = layout.nodes.iter().filter(|node| !node.is_empty());
    let mut groups: BTreeMap<(bool, u32), Vec<&NodeLayout>> = BTreeMap::new();
    for node in shown {
        let socket = node.sockets.first();
        let key = (socket.is_none(), socket.copied().unwrap_or(0));
        groups.entry(key).or_default().push(node);
    }
    let style = node::NodeStyle::of(layout, occupancy);
    let sockets: Vec<SocketBox> = groups
        .iter()
        .map(|((is_bare, socket), nodes)| {
            let heading = match is_bare {
                true => "without CPUs".to_owned(),
                false => format!("socket {socket}"),
            };
            SocketBox::new(&heading, nodes, &style)
        })
        .collect();
    let top = match caption.subtitle {
        "" => PAD + 2 * LINE + PAD,
        _ => PAD + 3 * LINE + PAD,
    };
    let (mut right, mut y) = place(&mut canvas, &sockets, top);
    let places = layout.nodes.iter().filter(|node| node.is_empty());
    let places: NodeSet = places.map(|node| node.id).collect();
    if !places.is_empty() {
        let line = format!("without CPUs and memory: NUMA nodes {places}");
        canvas.text((PAD, y + 12), Font::Small, "m", &line);
        y += LINE + PAD;
    }
    if !layout.far_devices.is_empty() {
        canvas.text((PAD, y + 12), Font::Small, "m", "near no NUMA node");
        let devices: Vec<_> = layout.far_devices.iter().collect();
        let width = right.saturating_sub(PAD);
        y = node::draw_devices(&mut canvas, &devices, layout, (PAD, y + LINE), width) + PAD;
    }
    if let Some(machine) = caption.distances {
        let (width, below) = distances::draw(&mut canvas, machine, (PAD, y));
        (right, y) = (right.max(width), below);
    }
    let lines = [
        Font::Title.width(caption.title),
        Font::Small.width(caption.subtitle),
        Font::Small.width(&facts(layout)),
    ];
    right = right.max(2 * PAD + lines.into_iter().max().unwrap_or(0));
    y = legend::draw(&mut canvas, layout, occupancy, (PAD, y), right - PAD);
    document(layout, caption, (right, y), &canvas)
}

/// The heading and the content of a socket, drawn at the origin.
struct SocketBox {
    heading: String,
    nodes: Vec<Vec<node::NodeBox>>,
    width: usize,
    height: usize,
}

impl SocketBox {
    fn new(heading: &str, nodes: &[&NodeLayout], style: &node::NodeStyle<'_>) -> Self {
        // Narrow NUMA nodes are drawn in pairs; those without CPUs are low, and fill the width.
        let across = match nodes.iter().any(|node| node.cpus().next().is_some()) {
            true if style.width > WIDEST / 4 => 1,
            true => 2,
            false => WIDEST / (style.width + PAD),
        };
        let across = across.clamp(1, nodes.len().max(1));
        let boxes: Vec<Vec<node::NodeBox>> = nodes
            .chunks(across)
            .map(|row| {
                row.iter()
                    .map(|one| node::NodeBox::new(one, style))
                    .collect()
            })
            .collect();
        let heights = boxes.iter().map(|row| row_height(row) + PAD);
        Self {
            heading: heading.to_owned(),
            width: PAD + across * (style.width + PAD),
            height: HEADING + heights.sum::<usize>(),
            nodes: boxes,
        }
    }

    fn draw(&self, canvas: &mut Canvas, (x, y): (usize, usize), height: usize) {
        canvas.rect((x, y), (self.width, height), "s", None);
        canvas.text((x + PAD, y + 15), Font::Bold, "t", &self.heading);
        let mut top = y + HEADING;
        for (index, row) in self.nodes.iter().enumerate() {
            // The last row reaches the lower edge, also beside a higher socket.
            let height = match index + 1 == self.nodes.len() {
                true => (y + height).saturating_sub(top + PAD),
                false => row_height(row),
            };
            let mut left = x + PAD;
            for node in row {
                node.draw(canvas, (left, top), height);
                left += node.width + PAD;
            }
            top += height + PAD;
        }
    }
}

fn row_height(row: &[node::NodeBox]) -> usize {
    row.iter().map(|node| node.height).max().unwrap_or(0)
}

/// Places the sockets side by side, in as many rows as they need. Returns the right and the lower edge with padding.
fn place(canvas: &mut Canvas, sockets: &[SocketBox], top: usize) -> (usize, usize) {
    let (mut right, mut y) = (PAD, top);
    let mut rest = sockets;
    while !rest.is_empty() {
        let mut edge = PAD;
        let fitting = rest.iter().take_while(|socket| {
            edge += socket.width + PAD;
            edge <= WIDEST
        });
        let (row, more) = rest.split_at(fitting.count().max(1));
        let height = row.iter().map(|socket| socket.height).max().unwrap_or(0);
        let mut x = PAD;
        for socket in row {
            socket.draw(canvas, (x, y), height);
            x += socket.width + PAD;
        }
        right = right.max(x);
        y += height + PAD;
        rest = more;
    }
    (right, y)
}

/// The machine in one line.
fn facts(layout: &MachineLayout) -> String {
    let mut sockets: Vec<u32> = layout
        .nodes
        .iter()
        .flat_map(|node| node.sockets.iter().copied())
        .collect();
    sockets.sort_unstable();
    sockets.dedup();
    let mut cpus: Vec<_> = layout.nodes.iter().flat_map(NodeLayout::cpus).collect();
    cpus.sort_unstable_by_key(|cpu| cpu.id);
    cpus.dedup_by_key(|cpu| cpu.id);
    let memory = layout.nodes.iter().flat_map(|node| &node.memory);
    let memory = memory.filter(|row| row.resource.as_str() == "memory");
    let memory = memory.fold(0_u64, |sum, row| sum.saturating_add(row.total));
    let mut facts = vec![
        count(sockets.len(), "socket", "sockets"),
        count(layout.nodes.len(), "NUMA node", "NUMA nodes"),
        count(cpus.len(), "CPU", "CPUs"),
    ];
    if memory > 0 {
        facts.push(amount::bytes(memory));
    }
    facts.join(", ")
}

fn document(
    layout: &MachineLayout,
    caption: Caption<'_>,
    (width, height): (usize, usize),
    body: &Canvas,
) -> String {
    let mut head = Canvas::default();
    head.text((PAD, PAD + 14), Font::Title, "t", caption.title);
    head.text((PAD, PAD + 14 + LINE), Font::Small, "m", &facts(layout));
    let third = (PAD, PAD + 14 + 2 * LINE);
    head.text(third, Font::Small, "m", caption.subtitle);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
         {height}\" font-family=\"ui-monospace, DejaVu Sans Mono, monospace\" font-size=\"12\">\n<title>{}</title>\n\
         <style>\n{}</style>\n<rect width=\"100%\" height=\"100%\" class=\"w\"/>\n{}{}</svg>\n",
        canvas::escape(caption.title),
        style_sheet(),
        head.elements(),
        body.elements(),
    )
}

/// The style sheet of every picture, for a page that shows pictures without their own. The classes: `w` paper, `s` sockets, `n` NUMA nodes, `g` caches, `c` cores, `f` free, `r` reserved,
/// `p0` and so on pods; `t` text, `m` secondary text, `k` text on the colour of a pod.
#[must_use]
pub fn style_sheet() -> String {
    let light = [
        ("w", "fill:#ffffff"),
        ("s", "fill:#f6f8fa;stroke:#8c959f"),
        ("n", "fill:#ffffff;stroke:#8c959f"),
        ("g", "fill:#f6f8fa;stroke:#d0d7de"),
        ("c", "fill:#eaeef2;stroke:#8c959f"),
        ("f", "fill:#ffffff;stroke:#8c959f"),
        ("r", "fill:#afb8c1;stroke:#57606a"),
        ("t", "fill:#1f2328"),
        ("m", "fill:#59636e"),
        ("k", "fill:#1f2328"),
    ];
    let dark = [
        ("w", "fill:#0d1117"),
        ("s", "fill:#151b23;stroke:#656c76"),
        ("n", "fill:#0d1117;stroke:#656c76"),
        ("g", "fill:#151b23;stroke:#3d444d"),
        ("c", "fill:#212830;stroke:#656c76"),
        ("f", "fill:#0d1117;stroke:#656c76"),
        ("t", "fill:#f0f6fc"),
        ("m", "fill:#9198a1"),
    ];
    let rules = |rules: &[(&str, &str)]| -> String {
        rules
            .iter()
            .map(|(class, style)| format!(".{class}{{{style}}}\n"))
            .collect()
    };
    let pods: String = palette::hex_colours()
        .enumerate()
        .map(|(index, colour)| format!(".p{index}{{fill:{colour};stroke:#57606a}}\n"))
        .collect();
    // Texts must not hide the tooltips of the rectangles below them.
    format!(
        "rect{{stroke-width:0.7}}\ntext{{pointer-events:none}}\n{}{pods}@media (prefers-color-scheme:dark){{\n{}}}\n",
        rules(&light),
        rules(&dark)
    )
}
