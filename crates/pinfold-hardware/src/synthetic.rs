//! Parses one-line descriptions of machines.
//!
//! ```text
//! 2 sockets, 2 numa, 16 cores, smt2
//! 2 sockets, 4 numa, 2 l3, 8 cores, smt2, mem=96Gi, distances=10,12,32
//! pack:2 numa:2 core:16 pu:2 mem=128Gi hugepages-1Gi=16 gpu=2 nic@0=1
//! ```
//!
//! A description is levels, from the largest to the smallest, then options. Each level says how many
//! of it are in *one* of the level before, so the first line has 4 NUMA nodes, 64 cores, 128 CPUs.
//!
//! ```text
//! description = item { separator item }
//! separator   = blanks, with or without a comma before them
//! item        = level | option
//! level       = NUMBER WORD | WORD ":" NUMBER | "smt" NUMBER
//! option      = KEY [ "@" LIST ] "=" VALUE
//! LIST        = NUMA ids as Linux writes them: 0,2-3
//! ```
//!
//! | level | words | default |
//! |---|---|---|
//! | socket | `socket`, `sockets`, `package`, `pack` | 1 |
//! | die | `die`, `dies` | none |
//! | NUMA node | `numa`, `node`, `nodes` | 1 per socket |
//! | L3 cache | `l3`, `cache`, `caches` | 1 per socket |
//! | core | `core`, `cores` | 1 |
//! | thread | `thread`, `threads`, `pu`, `smt2` | 1 |
//!
//! Sockets are first, cores and threads last; `die`, `numa` and `l3` nest in the order in which they are written:
//! `2 sockets, 1 l3, 2 numa, 8 cores` splits each socket's cache between two nodes, `2 numa, 4 l3` gives each node four
//! caches.
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `mem=64Gi` | memory of each node with CPUs; `mem@2-3=128Gi` of these nodes | `64Gi`; nodes without CPUs 0 |
//! | `hugepages-2Mi=512`, `hugepages-1Gi=16` | huge pages preallocated on each node with CPUs; `@` as above | none |
//! | `l3=4` | the cores of each NUMA node share four L3 caches; `l3=0`: the kernel shows none | |
//! | `numbering=split` | all first threads, then all second threads (Intel and AMD servers; also written `intel`, `amd`) | `split` |
//! | `numbering=adjacent` | the threads of a core are neighbours | |
//! | `numbering=interleaved` | like `split`, dealt round-robin over the NUMA nodes (many Dell servers) | |
//! | `distances=10,12,21` | to itself, in the socket, to another socket; two numbers: to itself, to any other | `10,12,21` |
//! | `distances=10,21/21,10` | every row, in the order of node ids | |
//! | `node-ids=0,8` | the ids of the nodes with CPUs | 0, 1, ... |
//! | `cpuless=2-3` | further nodes without CPUs, by id; `cpuless@0=2` says which node they are nearest to | none |
//! | `cpuless-distances=14,24,26` | of those: to the nearest node, to other nodes with CPUs, to each other | `20,30,30` |
//! | `gpu=1`, `nic=1`, `infiniband=1`, `nvme=1`, `accelerator=1`, `cxl-memory=1` | PCI devices of each node with CPUs; `@` as above | none |
//! | `offline=8-15`, `isolated=4-7` | CPUs that are switched off, or kept from the scheduler | none |
//!
//! Lines may be broken anywhere between items, and `#` starts a comment: files are read the same way.

mod build;
mod description;
mod lexer;
mod notation_error;
mod parse;

pub use notation_error::{NotationError, NotationProblem};

use crate::hardware::Hardware;

/// Limit of the length of a description.
pub const LONGEST_DESCRIPTION: usize = 64 << 10;

/// Builds the machine of a description.
///
/// # Errors
/// With the position of the first invalid word, and what is expected there.
pub fn read(description: &str) -> Result<Hardware, NotationError> {
    let plan = parse::parse(description)?;
    build::build(&plan).map_err(|(problem, place)| problem.at(description, place))
}

#[cfg(test)]
mod tests;
