//! The distances between NUMA nodes: a table, or sentences where a table would not fit.

use std::collections::BTreeMap;

use pinfold_core::machine::Machine;
use pinfold_core::node_set::NodeSet;

use crate::table::{Align, Table};
use crate::text::paragraph;

/// Distances by index of the nodes.
struct Matrix<'a> {
    rows: Vec<&'a [u32]>,
}

/// The distances after an empty line; nothing if there are none or only one node.
pub(crate) fn draw(machine: &Machine, width: usize) -> String {
    let nodes = machine.nodes();
    if nodes.len() < 2 || nodes.iter().any(|node| node.distances.is_empty()) {
        return String::new();
    }
    let ids = nodes.iter().map(|node| node.id.to_string());
    let headings = std::iter::once("distance".to_owned()).chain(ids);
    let mut table = Table::new(headings.map(|id| (id, Align::Right)));
    for node in nodes {
        let row = node.distances.iter().map(u32::to_string);
        table.row(std::iter::once(node.id.to_string()).chain(row));
    }
    let table = table.draw();
    let fits = table.lines().all(|line| line.chars().count() <= width);
    match fits {
        true => format!("\n{table}"),
        false => format!("\n{}", sentences(machine, width)),
    }
}

fn sentences(machine: &Machine, width: usize) -> String {
    let nodes = machine.nodes();
    let matrix = Matrix {
        rows: nodes.iter().map(|node| node.distances.as_slice()).collect(),
    };
    let ids = |places: &[usize]| -> NodeSet { places.iter().map(|&i| nodes[i].id).collect() };
    let mut text = "distances\n".to_owned();
    for group in matrix.groups() {
        let first = group[0];
        let mut facts = vec![format!("{} to itself", matrix.rows[first][first])];
        if let Some(&other) = group.get(1) {
            facts.push(format!("{} to each other", matrix.rows[first][other]));
        }
        let mut others: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for to in (0..nodes.len()).filter(|to| !group.contains(to)) {
            others.entry(matrix.rows[first][to]).or_default().push(to);
        }
        for (distance, to) in others {
            facts.push(format!("{distance} to {}", ids(&to)));
        }
        let lead = format!("  {:<7} ", format!("{}:", ids(&group)));
        text.push_str(&paragraph(&lead, &facts.join(", "), 10, width));
    }
    text
}

impl Matrix<'_> {
    /// Groups of nodes with the same distances to all others and to each other.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for node in 0..self.rows.len() {
            match groups.iter_mut().find(|group| self.fits(group, node)) {
                Some(group) => group.push(node),
                None => groups.push(vec![node]),
            }
        }
        groups
    }

    fn fits(&self, group: &[usize], node: usize) -> bool {
        let at = |from: usize, to: usize| self.rows[from][to];
        let first = group[0];
        let between = at(first, *group.get(1).unwrap_or(&node));
        let others = (0..self.rows.len()).filter(|&to| to != first && to != node);
        at(first, first) == at(node, node)
            && at(first, node) == between
            && at(node, first) == between
            && others.into_iter().all(|to| at(first, to) == at(node, to))
    }
}
