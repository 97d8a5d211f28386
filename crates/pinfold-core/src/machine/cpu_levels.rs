//! [`CpuLevels`]: the sockets, NUMA nodes, caches and cores inside each other, computed once per machine.
//!
//! On ordinary machines the groups nest. They need not: a cache may span several NUMA nodes, a node several sockets, a
//! socket several nodes. A child therefore lists the CPUs it has *in this parent*, and may have several parents.

use smallvec::SmallVec;

use super::cpus::CpuGroup;
use crate::cpu_set::{CpuId, CpuSet};

/// Threads of one core, ascending.
pub(crate) type Threads = SmallVec<[CpuId; 4]>;

/// A group inside a larger one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    /// Its index in the topology's list of such groups.
    pub(crate) at: usize,
    /// The CPUs it has in the parent.
    pub(crate) shared: CpuSet,
}

/// A core inside a larger group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoreChild {
    /// Its index in the topology's list of cores.
    pub(crate) at: usize,
    /// Its threads in the parent: all of them, unless the machine's description contradicts itself.
    pub(crate) threads: Threads,
}

/// The children of every group, by the group's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuLevels {
    pub(crate) threads_of_core: Vec<Threads>,
    /// The number of CPUs of the smallest socket, NUMA node and core: a smaller request fills none of them.
    pub(crate) smallest_socket: usize,
    pub(crate) smallest_node: usize,
    pub(crate) smallest_core: usize,
    pub(crate) nodes_in_socket: Vec<Vec<Child>>,
    pub(crate) sockets_in_node: Vec<Vec<Child>>,
    pub(crate) caches_in_node: Vec<Vec<Child>>,
    pub(crate) cores_in_socket: Vec<Vec<CoreChild>>,
    pub(crate) cores_in_node: Vec<Vec<CoreChild>>,
    pub(crate) cores_in_cache: Vec<Vec<CoreChild>>,
}

impl CpuLevels {
    pub(crate) fn new<S, N, L, C>(
        sockets: &[CpuGroup<S>],
        nodes: &[CpuGroup<N>],
        caches: &[CpuGroup<L>],
        cores: &[CpuGroup<C>],
    ) -> Self {
        Self {
            threads_of_core: cores
                .iter()
                .map(|core| core.cpus.iter().collect())
                .collect(),
            smallest_socket: smallest(sockets),
            smallest_node: smallest(nodes),
            smallest_core: smallest(cores),
            nodes_in_socket: children(sockets, nodes),
            sockets_in_node: children(nodes, sockets),
            caches_in_node: children(nodes, caches),
            cores_in_socket: core_children(sockets, cores),
            cores_in_node: core_children(nodes, cores),
            cores_in_cache: core_children(caches, cores),
        }
    }
}

fn smallest<Id>(groups: &[CpuGroup<Id>]) -> usize {
    groups
        .iter()
        .map(|group| group.cpus.len())
        .min()
        .unwrap_or(0)
}

fn overlaps<P, C>(
    parent: &CpuGroup<P>,
    groups: &[CpuGroup<C>],
) -> impl Iterator<Item = (usize, CpuSet)> {
    groups.iter().enumerate().filter_map(|(at, group)| {
        let shared = &parent.cpus & &group.cpus;
        (!shared.is_empty()).then_some((at, shared))
    })
}

fn children<P, C>(parents: &[CpuGroup<P>], groups: &[CpuGroup<C>]) -> Vec<Vec<Child>> {
    let of = |parent| overlaps(parent, groups).map(|(at, shared)| Child { at, shared });
    parents.iter().map(|parent| of(parent).collect()).collect()
}

fn core_children<P, C>(parents: &[CpuGroup<P>], cores: &[CpuGroup<C>]) -> Vec<Vec<CoreChild>> {
    let of = |parent| {
        overlaps(parent, cores).map(|(at, shared)| CoreChild {
            at,
            threads: shared.iter().collect(),
        })
    };
    parents.iter().map(|parent| of(parent).collect()).collect()
}
