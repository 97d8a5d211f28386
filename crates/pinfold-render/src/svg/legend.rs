//! The legend: every pod with its letters, its colour and what it holds.

use std::fmt::Write;

use pinfold_core::occupancy::{Holder, Occupancy};

use super::canvas::{Canvas, Fill, Font};
use super::{LINE, PAD};
use crate::layout::MachineLayout;
use crate::text::count;
use crate::{amount, palette};

/// The width of a column of the legend, if the picture has room for several.
const COLUMN: usize = 480;
/// The width of the square with the letters.
const SIGN: usize = 22;

/// Draws the legend within a width and returns its lower edge.
pub(super) fn draw(
    canvas: &mut Canvas,
    layout: &MachineLayout,
    occupancy: &Occupancy,
    (left, top): (usize, usize),
    right: usize,
) -> usize {
    if layout.bare {
        return top;
    }
    let mut rows = vec![(Fill::Class("f"), "·".to_owned(), "free".to_owned())];
    if !occupancy.reserved.is_empty() {
        let reserved = format!("reserved, CPUs {}", occupancy.reserved);
        rows.push((Fill::Class("r"), "#".to_owned(), reserved));
    }
    for (index, holder) in occupancy.holders.iter().enumerate() {
        let devices = occupancy.devices.iter();
        let devices = devices.filter(|device| device.holder == Some(index));
        let devices: Vec<&str> = devices.map(|device| device.id.as_str()).collect();
        let letters = palette::letters(index);
        rows.push((Fill::Pod(index), letters, holdings(holder, &devices)));
    }
    let width = right - left;
    let columns = (width / COLUMN).clamp(1, rows.len());
    let column = width / columns;
    let height = rows.len().div_ceil(columns);
    for (number, (class, letters, line)) in rows.iter().enumerate() {
        let x = left + number / height * column;
        let y = top + number % height * (LINE + 2);
        canvas.rect((x, y), (SIGN, 13), *class, Some(line));
        let letter = match class {
            Fill::Class("f") => "m",
            _ => "k",
        };
        canvas.text_middle((x + SIGN / 2, y + 10), Font::Letter, letter, letters);
        let room = column.saturating_sub(SIGN + 6 + PAD);
        let line = Font::Small.fit(line, room);
        canvas.text((x + SIGN + 6, y + 11), Font::Small, "t", &line);
    }
    let mut y = top + height * (LINE + 2);
    if occupancy.shared_only_pods > 0 {
        let pods = count(occupancy.shared_only_pods, "pod", "pods");
        let line = format!("{pods} in the shared pool");
        canvas.text((left + SIGN + 6, y + 11), Font::Small, "t", &line);
        y += LINE;
    }
    y + PAD
}

fn holdings(holder: &Holder, devices: &[&str]) -> String {
    let mut line = holder.name.clone();
    if !holder.cpus.is_empty() {
        let _ = write!(line, ", CPUs {}", holder.cpus);
    }
    for held in &holder.memory {
        let _ = write!(line, ", {} {}", held.resource, amount::bytes(held.bytes));
    }
    for device in devices {
        let _ = write!(line, ", {device}");
    }
    line
}
