//! The distances between NUMA nodes as a table.

use pinfold_core::machine::Machine;

use super::canvas::{Canvas, Font};
use super::{LINE, PAD};

/// The width of a distance.
const CELL: usize = 30;

/// Draws the distances and returns the right and the lower edge, with padding. Draws nothing if there are none.
pub(super) fn draw(
    canvas: &mut Canvas,
    machine: &Machine,
    (left, top): (usize, usize),
) -> (usize, usize) {
    let nodes = machine.nodes();
    if nodes.len() < 2 || nodes.iter().any(|node| node.distances.is_empty()) {
        return (left, top);
    }
    let heading = "distance from a NUMA node (row) to another (column), 10 is local";
    canvas.text((left, top + 12), Font::Small, "t", heading);
    let first = top + LINE + 4;
    let column = |index: usize| left + CELL + index * CELL;
    for (index, node) in nodes.iter().enumerate() {
        let middle = column(index) + CELL / 2;
        let id = node.id.to_string();
        canvas.text_middle((middle, first + 11), Font::Small, "m", &id);
        let y = first + (index + 1) * LINE;
        canvas.text_end((left + CELL - 6, y + 12), Font::Small, "m", &id);
        for (to, distance) in node.distances.iter().enumerate() {
            let title = format!(
                "from NUMA node {} to {}: {distance}",
                node.id,
                nodes
                    .get(to)
                    .map_or_else(String::new, |node| node.id.to_string()),
            );
            let class = match to == index {
                true => "c",
                false => "f",
            };
            canvas.rect((column(to), y), (CELL, LINE), class, Some(&title));
            let middle = column(to) + CELL / 2;
            canvas.text_middle((middle, y + 12), Font::Small, "t", &distance.to_string());
        }
    }
    let right = column(nodes.len()).max(left + Font::Small.width(heading));
    (right + PAD, first + (nodes.len() + 1) * LINE + PAD)
}
