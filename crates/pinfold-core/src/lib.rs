//! The decisions of Pinfold: where a pod's CPUs, memory and devices go on a NUMA machine, and why.
//!
//! Pure: no I/O, no clock, no randomness. The same input gives the same bytes.
//!
//! ```text
//! Machine ─┐
//!          ├─► Ledger + Pod ─► Decision (+ the facts that explain it, + the change to write down)
//! Settings ┘
//! ```
//!
//! Start with [`machine`] and [`pod`] for what comes in, [`hint`] for what the managers say about it,
//! [`merge`] for how one placement comes out.

pub mod cluster;
pub mod cpu;
pub mod cpu_set;
pub mod decision;
pub mod demand;
pub mod device;
pub mod explanation;
pub mod fidelity;
pub mod go_text;
pub mod hint;
pub mod koordinator;
pub mod ledger;
mod list_format;
pub mod machine;
pub mod memory;
pub mod merge;
pub mod name;
pub mod node_set;
pub mod node_topology;
pub mod occupancy;
pub mod pod;
pub mod policy;
pub mod qos;
pub mod quantity;
pub mod remedy;
pub mod settings;
pub mod volcano;
