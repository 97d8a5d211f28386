//! [`MemoryBar`]: one type of memory of a NUMA node as a bar with a part for every holder.

use pinfold_core::node_set::NodeId;
use pinfold_core::occupancy::{HeldMemory, MemoryRow, Occupancy};

use super::canvas::{Canvas, Fill, Font};
use crate::{amount, palette};

/// The height of a bar.
pub(super) const HEIGHT: usize = 13;

/// A bar of a given width.
pub(super) struct MemoryBar {
    /// The name of the resource and its amounts.
    pub(super) label: String,
    /// The parts from left to right; together they are as wide as the bar.
    pub(super) parts: Vec<BarPart>,
}

/// A part of a bar.
pub(super) struct BarPart {
    /// The distance of its left edge from that of the bar.
    pub(super) from: usize,
    pub(super) width: usize,
    pub(super) class: Fill,
    /// The tooltip.
    pub(super) title: String,
    /// The letters of the holder; empty for free memory.
    pub(super) letters: String,
}

/// An amount of memory in the bar.
struct Amount {
    bytes: u64,
    class: Fill,
    title: String,
    letters: String,
}

impl MemoryBar {
    pub(super) fn new(row: &MemoryRow, occupancy: &Occupancy, bare: bool, width: usize) -> Self {
        let resource = &row.resource;
        let label = match bare {
            true => format!("{resource} {}", amount::bytes(row.total)),
            false => format!("{resource} {}", amount::free_of(row.free, row.allocatable)),
        };
        let mut amounts = held(row, occupancy);
        let reserved = row.total.saturating_sub(row.allocatable);
        amounts.push(Amount {
            bytes: row.free,
            class: Fill::Class("f"),
            title: format!("{resource}: {} free", amount::bytes(row.free)),
            letters: String::new(),
        });
        amounts.push(Amount {
            bytes: reserved,
            class: Fill::Class("r"),
            title: format!("{resource}: {} reserved", amount::bytes(reserved)),
            letters: "#".to_owned(),
        });
        Self {
            label,
            parts: parts(amounts, width),
        }
    }
}

impl MemoryBar {
    pub(super) fn draw(&self, canvas: &mut Canvas, (x, y): (usize, usize)) {
        for part in &self.parts {
            let left = x + part.from;
            canvas.rect(
                (left, y),
                (part.width, HEIGHT),
                part.class,
                Some(&part.title),
            );
            if Font::Letter.width(&part.letters) + 2 <= part.width {
                let middle = left + part.width / 2;
                canvas.text_middle((middle, y + 10), Font::Letter, "k", &part.letters);
            }
        }
    }
}

/// The memory of each holder on the node. A block of several nodes has what the blocks of one node leave of the memory
/// in use, in proportion to its size: the kernel decides about its pages.
fn held(row: &MemoryRow, occupancy: &Occupancy) -> Vec<Amount> {
    let is_here = |held: &&HeldMemory, node: NodeId| {
        held.resource == row.resource && held.nodes.contains(node)
    };
    let blocks: Vec<(usize, &HeldMemory)> = occupancy
        .holders
        .iter()
        .enumerate()
        .flat_map(|(index, holder)| holder.memory.iter().map(move |held| (index, held)))
        .filter(|(_, held)| is_here(held, row.node))
        .collect();
    let sum = |one: bool| {
        let blocks = blocks
            .iter()
            .filter(|(_, held)| (held.nodes.len() == 1) == one);
        blocks.fold(0_u128, |sum, (_, held)| sum + u128::from(held.bytes))
    };
    let (of_one, of_several) = (sum(true), sum(false));
    let used = u128::from(row.allocatable.saturating_sub(row.free));
    let shared = used.saturating_sub(of_one);
    let amount = |(index, held): &(usize, &HeldMemory)| {
        let name = occupancy
            .holders
            .get(*index)
            .map_or("", |holder| &holder.name);
        let letters = palette::letters(*index);
        let all = amount::bytes(held.bytes);
        let (bytes, place) = match held.nodes.len() {
            1 => (held.bytes, String::new()),
            _ => {
                let part = u128::from(held.bytes) * shared / of_several.max(1);
                let part = u64::try_from(part).unwrap_or(u64::MAX);
                (part, format!(" on NUMA nodes {}", held.nodes))
            }
        };
        Amount {
            bytes,
            class: Fill::Pod(*index),
            title: format!("{}: {all}{place}, {letters} {name}", row.resource),
            letters,
        }
    };
    blocks.iter().map(amount).collect()
}

/// Scales amounts to the width. An amount that is not zero has at least one pixel while there is room.
fn parts(amounts: Vec<Amount>, width: usize) -> Vec<BarPart> {
    let total: u128 = amounts.iter().map(|amount| u128::from(amount.bytes)).sum();
    let mut parts = Vec::new();
    let (mut before, mut from) = (0_u128, 0);
    for amount in amounts.into_iter().filter(|amount| amount.bytes > 0) {
        before += u128::from(amount.bytes);
        let end = before * width as u128 / total.max(1);
        let end = usize::try_from(end)
            .unwrap_or(width)
            .max(from + 1)
            .min(width);
        if end > from {
            parts.push(BarPart {
                from,
                width: end - from,
                class: amount.class,
                title: amount.title,
                letters: amount.letters,
            });
        }
        from = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use pinfold_core::node_set::NodeSet;
    use pinfold_core::occupancy::Holder;

    use super::*;

    fn node(id: i64) -> NodeId {
        NodeId::new(id).expect("a small id")
    }

    #[test]
    fn every_holder_has_a_part_and_the_parts_fill_the_bar() {
        let block = |nodes: &[i64], bytes: u64| HeldMemory {
            nodes: nodes.iter().map(|&id| node(id)).collect::<NodeSet>(),
            resource: "memory".into(),
            bytes,
        };
        let holder = |name: &str, memory: HeldMemory| Holder {
            name: name.to_owned(),
            memory: vec![memory],
            ..Holder::default()
        };
        let occupancy = Occupancy {
            holders: vec![
                holder("web", block(&[0], 20)),
                holder("wide", block(&[0, 1], 60)),
                holder("other", block(&[1], 50)),
            ],
            ..Occupancy::default()
        };
        let row = MemoryRow {
            node: node(0),
            resource: "memory".into(),
            total: 100,
            allocatable: 90,
            free: 30,
        };
        let bar = MemoryBar::new(&row, &occupancy, false, 200);
        let parts: Vec<(usize, &str)> = bar
            .parts
            .iter()
            .map(|part| (part.width, part.title.as_str()))
            .collect();
        assert_eq!(
            parts,
            [
                (40, "memory: 20 B, A web"),
                (80, "memory: 60 B on NUMA nodes 0-1, B wide"),
                (60, "memory: 30 B free"),
                (20, "memory: 10 B reserved"),
            ]
        );
    }
}
