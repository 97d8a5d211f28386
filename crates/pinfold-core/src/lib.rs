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
//! ```
//! use std::sync::Arc;
//!
//! use pinfold_core::policy::TopologyPolicy;
//! use pinfold_core::settings::CpuManagerPolicy;
//! use pinfold_core::{Ledger, Machine, NoPreference, Pod, Quantity, Rules, Settings, UniformMachine};
//!
//! // Two sockets with one NUMA node of four cores each.
//! let machine = Machine::uniform(UniformMachine {
//!     sockets: 2,
//!     nodes_per_socket: 1,
//!     cores_per_node: 4,
//!     threads_per_core: 1,
//!     memory_per_node: 8 << 30,
//! })?;
//! let settings = Settings {
//!     topology_policy: TopologyPolicy::SingleNumaNode,
//!     cpu_policy: CpuManagerPolicy::Static,
//!     reserved_cpu: Some(Quantity::from(1)),
//!     ..Settings::default()
//! };
//! let rules = Rules::new(Arc::new(machine), settings)?;
//! let mut ledger = Ledger::new(Arc::new(rules));
//!
//! let gi = Quantity::from(1 << 30);
//! let fits = Pod::guaranteed("fits", [("cpu", Quantity::from(4)), ("memory", gi)]);
//! let decision = ledger.admit(&Arc::new(fits), &mut NoPreference)?.decision;
//! let assignment = decision.assignment().expect("NUMA node 1 is free");
//! assert_eq!(assignment.containers[0].cpus, Some("4-7".parse()?));
//!
//! // Four CPUs are not free on one node any more: CPU 0 is reserved.
//! let late = Pod::guaranteed("late", [("cpu", Quantity::from(4)), ("memory", gi)]);
//! let decision = ledger.admit(&Arc::new(late), &mut NoPreference)?.decision;
//! let rejection = decision.rejection().expect("no node has four free CPUs");
//! assert_eq!(rejection.reason.name(), "TopologyAffinityError");
//! let cpus = &decision.explanation.alignments[0].resources[0];
//! assert_eq!((cpus.requested, cpus.free), (4, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
mod edit;
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
mod steps;

pub use cpu_set::CpuSet;
pub use decision::{AdmissionResult, Assignment, Decision, Rejection};
pub use device::NoPreference;
pub use edit::StaleEdit;
pub use explanation::Explanation;
pub use fidelity::Fidelity;
pub use ledger::{Admission, Change, Ledger, Rules};
pub use machine::{Machine, UniformMachine};
pub use pod::{Container, Pod};
pub use quantity::Quantity;
pub use settings::Settings;
