//! Linux control groups, v1 and v2: finds a container's group, reads its limits, and changes them safely.
//!
//! ```text
//! /proc/self/mountinfo ─► CgroupMounts ─► Hierarchy ─┐
//!                                                    ├─► Cgroup ─► read() ─► CgroupState
//! a runtime's name of the group ─► GroupPath ────────┘      └───► write(CgroupSettings) ─► CgroupChange: the state
//! read back
//! ```
//!
//! Both versions have the same interface here. They differ in what the kernel rejects: v1 accepts a set of CPUs only if
//! it is not empty and a subset of the parent's, and narrows a parent only after its children; v2 accepts any set and
//! silently applies what it can. So the order of writes is planned (`steps.rs`) before the first write, and the result
//! is read back after the last.
//!
//! A group may be removed at any moment because its container ended. That is [`CgroupError::Vanished`], which callers
//! ignore.

pub mod control;
mod cpu_time;
mod cpu_usage;
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

pub use cpu_time::CpuTimeLimit;
pub use error::CgroupError;
pub use group::{Cgroup, CgroupChange, CgroupSettings, NarrowAncestor};
pub use hierarchy::{CgroupVersion, ControllerMount, Hierarchy};
pub use mounts::{CgroupMount, CgroupMounts};
pub use partition::{Partition, PartitionState};
pub use path::{GroupPath, PathError};
pub use state::CgroupState;
