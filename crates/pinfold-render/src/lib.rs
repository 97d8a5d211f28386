//! Draws NUMA machines with the CPUs, memory and devices that pods hold: terminal text and SVG, from core values only.
//!
//! ```text
//! Machine + Occupancy ─► MachineLayout (sockets > nodes > caches > cores > CPUs, each with its holder)
//!                          ├─► grid   one glyph per core, for terminals
//!                          ├─► tree   the machine as an outline
//!                          └─► svg    the same picture for browsers
//! ```
//!
//! Deterministic: the same values give the same bytes. Nothing here prints.

pub mod amount;
pub mod cpu_reasons;
mod distances;
pub mod explain;
pub mod grid;
pub mod layout;
pub mod palette;
pub mod placement;
pub mod remote_memory;
pub mod svg;
pub mod table;
pub mod text;
pub mod tree;

/// Whether text may contain colour (ANSI escape sequences).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// For terminals.
    Ansi,
    /// For files, pipes and terminals without colour. Every picture is legible without it.
    #[default]
    Plain,
}
