//! The kubelet's decisions: which CPUs, memory and devices of a NUMA machine a pod is assigned, and why.
//!
//! No I/O, no clock, no randomness: the same input gives the same bytes.
//!
//! ```text
//! Machine ─┐
//!          ├─► Ledger + Pod ─► Decision (with the facts that explain it) + Change to journal
//! Settings ┘
//! ```
//!
//! Start with [`machine`], [`settings`] and [`pod`] for the input, [`ledger`] for admission, [`hint`] for what the
//! resource managers report, and [`merge`] for how their hints become one NUMA affinity.

pub mod cover;
pub mod cpu;
pub mod cpu_set;
pub mod decision;
pub mod demand;
pub mod device;
pub mod exclusive_cpus;
pub mod explanation;
pub mod fidelity;
pub mod go_text;
pub mod hint;
pub mod ledger;
mod list_format;
pub mod machine;
pub mod memory;
pub mod merge;
pub mod name;
pub mod node_set;
pub mod occupancy;
pub mod pod;
pub mod policy;
pub mod qos;
pub mod quantity;
pub mod remedy;
pub mod settings;
