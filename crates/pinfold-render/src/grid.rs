//! The grid: each NUMA node with its caches, one glyph per core, coloured by pod and legible without colour.
//!
//! ```text
//! NUMA node 0  socket 0  8 of 16 CPUs free  memory 60 of 64 GiB free
//!   L3 0   #AAA ····          #  reserved     A  all threads of one pod    a  some threads of one pod
//!   L3 1   BBa* ····          ·  free         *  threads of several pods
//! ```

use std::fmt::Write;

use pinfold_core::occupancy::{DeviceSeat, Occupancy};

use crate::Colour;
use crate::amount;
use crate::palette;
use crate::plan::{Plan, PlannedCpu, PlannedNode, Seat};

/// Cores between two gaps, so that the eye can count.
const GROUP: usize = 4;

/// Draws every node, then who is who. Lines stay within `width` columns as far as names allow.
#[must_use]
pub fn draw(plan: &Plan, occupancy: &Occupancy, width: usize, colour: Colour) -> String {
    let mut text = String::new();
    for node in &plan.nodes {
        draw_node(&mut text, node, width, colour);
    }
    if !plan.far_devices.is_empty() {
        let names: Vec<String> = plan
            .far_devices
            .iter()
            .map(|device| device.id.clone())
            .collect();
        let _ = writeln!(text, "near no NUMA node: {}", names.join(" "));
    }
    draw_legend(&mut text, plan, occupancy, colour);
    text
}

fn draw_node(text: &mut String, node: &PlannedNode, width: usize, colour: Colour) {
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
        all => facts.push(format!("{} of {all} CPUs free", node.free_cpus())),
    }
    for row in node.memory.iter().filter(|row| row.total > 0) {
        facts.push(format!(
            "{} {}",
            row.resource,
            amount::free_of(row.free, row.total)
        ));
    }
    let facts: Vec<Word> = facts.into_iter().map(Word::plain).collect();
    wrap(text, &facts, "", "  ", width);
    for cache in &node.caches {
        let label = cache
            .id
            .map_or_else(|| "cores".to_owned(), |id| format!("L3 {id}"));
        draw_cores(text, &label, &cache.cores, width, colour);
    }
    let devices: Vec<Word> = node
        .devices
        .iter()
        .map(|device| device_word(device, colour))
        .collect();
    wrap(text, &devices, "  ", " ", width);
}

fn device_word(device: &DeviceSeat, colour: Colour) -> Word {
    let (state, holder) = match (device.healthy, device.holder) {
        (false, _) => ('!', None),
        (true, None) => ('·', None),
        (true, Some(holder)) => (palette::sign(holder), Some(holder)),
    };
    let mut word = Word::plain(format!("{}=", device.id));
    word.text
        .push_str(&paint(&state.to_string(), holder, colour));
    word.columns += 1;
    word
}

/// One line per cache, more when it does not fit.
fn draw_cores(
    text: &mut String,
    label: &str,
    cores: &[Vec<PlannedCpu>],
    width: usize,
    colour: Colour,
) {
    const MARGIN: usize = 9;
    let room = width.saturating_sub(MARGIN).max(GROUP + 1);
    let per_line = (room / (GROUP + 1) * GROUP).max(GROUP);
    for (line, cores) in cores.chunks(per_line).enumerate() {
        let label = if line == 0 { label } else { "" };
        let _ = write!(text, "  {label:<6} ");
        for (index, core) in cores.iter().enumerate() {
            if index > 0 && index % GROUP == 0 {
                text.push(' ');
            }
            let (glyph, holder) = glyph(core);
            text.push_str(&paint(&glyph.to_string(), holder, colour));
        }
        text.push('\n');
    }
}

/// The sign of one core, and the holder that gives it its colour.
fn glyph(core: &[PlannedCpu]) -> (char, Option<usize>) {
    let held = |cpu: &PlannedCpu| match cpu.seat {
        Seat::Held(holder) => Some(holder),
        Seat::Free | Seat::Reserved => None,
    };
    let mut holders: Vec<usize> = core.iter().filter_map(held).collect();
    let threads_held = holders.len();
    holders.dedup();
    match holders.as_slice() {
        [] if core.iter().all(|cpu| cpu.seat == Seat::Reserved) => ('#', None),
        [] if core.iter().any(|cpu| cpu.seat == Seat::Reserved) => ('+', None),
        [] => ('·', None),
        [holder] if threads_held == core.len() => (palette::sign(*holder), Some(*holder)),
        [holder] => (palette::part_sign(*holder), Some(*holder)),
        [first, ..] => ('*', Some(*first)),
    }
}

fn draw_legend(text: &mut String, plan: &Plan, occupancy: &Occupancy, colour: Colour) {
    let used: Vec<char> = plan
        .nodes
        .iter()
        .flat_map(|node| {
            node.caches
                .iter()
                .flat_map(|cache| cache.cores.iter().map(|core| glyph(core).0))
        })
        .collect();
    let mut signs = Vec::new();
    for (sign, meaning) in [
        ('·', "free"),
        ('#', "reserved"),
        ('+', "one thread reserved, one free"),
        ('*', "threads of several pods"),
    ] {
        if used.contains(&sign) {
            signs.push(format!("{sign} {meaning}"));
        }
    }
    if used.iter().any(char::is_ascii_lowercase) {
        signs.push("a..z only some threads of the core".into());
    }
    if !signs.is_empty() {
        let _ = writeln!(text, "\n{}", signs.join("   "));
    }
    for (index, holder) in occupancy.holders.iter().enumerate() {
        let sign = paint(&palette::sign(index).to_string(), Some(index), colour);
        let _ = write!(text, "{sign} {}", holder.name);
        if !holder.cpus.is_empty() {
            let _ = write!(text, "  CPUs {}", holder.cpus);
        }
        for held in &holder.memory {
            let _ = write!(
                text,
                "  {} {} on {}",
                held.resource,
                amount::bytes(held.bytes),
                held.nodes
            );
        }
        let devices = occupancy
            .devices
            .iter()
            .filter(|device| device.holder == Some(index));
        let devices: Vec<&str> = devices.map(|device| device.id.as_str()).collect();
        if !devices.is_empty() {
            let _ = write!(text, "  {}", devices.join(" "));
        }
        text.push('\n');
    }
}

/// Something that stays on one line, and how many columns it takes: colours take none.
struct Word {
    text: String,
    columns: usize,
}

impl Word {
    fn plain(text: String) -> Self {
        let columns = text.chars().count();
        Self { text, columns }
    }
}

/// Writes words behind each other, on as many lines as they need; later lines are indented further.
fn wrap(text: &mut String, words: &[Word], indent: &str, gap: &str, width: usize) {
    let mut column = 0;
    for (index, word) in words.iter().enumerate() {
        if index > 0 && column + gap.len() + word.columns > width {
            text.push('\n');
            column = 0;
        }
        let lead = match (column, index) {
            (0, 0) => indent.to_owned(),
            (0, _) => format!("{indent}  "),
            _ => gap.to_owned(),
        };
        text.push_str(&lead);
        text.push_str(&word.text);
        column += lead.len() + word.columns;
    }
    if !words.is_empty() {
        text.push('\n');
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
