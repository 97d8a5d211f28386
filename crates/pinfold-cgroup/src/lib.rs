//! Real control groups: where a container's group is, what it allows, and how to change that safely.
//!
//! ```text
//! /proc/self/mountinfo ─► Mounts ─► Hierarchy ─┐
//!                                              ├─► Group ─► read() ─► State
//! what a runtime calls it ─► GroupPath ────────┘     └────► write(Wanted) ─► Written: what is really so
//! ```
//!
//! Both generations of control groups look the same from outside. They differ in what the kernel rejects: v1 takes a
//! set of CPUs only if it is not empty and lies within the parent's, and narrows a parent only after its children;
//! v2 takes everything and silently makes the best of it. So changes are planned (`steps.rs`) before the first write,
//! and read back after the last.
//!
//! A group may vanish at any moment, because its container ended. That is [`CgroupError::Vanished`], which is news and
//! not a fault.

pub mod control;
mod cpu_time;
mod error;
pub mod folder;
mod group;
mod hierarchy;
mod ids;
mod mounts;
mod partition;
mod path;
mod state;
mod steps;

pub use cpu_time::CpuTime;
pub use error::CgroupError;
pub use group::{Group, Wanted, Written};
pub use hierarchy::{Hierarchy, Home, Version};
pub use mounts::{Mount, Mounts};
pub use partition::{Partition, PartitionState};
pub use path::{Driver, GroupPath, PathError};
pub use state::State;
