//! Turns cgroups of containers with exclusive CPUs into cpuset partitions, if configured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_cgroup::{CgroupError, GroupPath, Hierarchy, Partition};

use super::enforcer::group_of;
use super::telemetry::NodeTelemetry;
use crate::allowance::Quota;
use crate::config;
use crate::node::{ManagedContainer, ManagedNode};

/// Creates and dissolves cpuset partitions.
pub(super) struct PartitionManager {
    /// Partition type; `None` if no partitions are configured.
    kind: Option<Partition>,
    partitioned: Mutex<BTreeSet<GroupPath>>,
}

impl PartitionManager {
    pub(super) fn new(config: config::PartitionKind) -> Self {
        let kind = match config {
            config::PartitionKind::None => None,
            config::PartitionKind::Root => Some(Partition::Root),
            config::PartitionKind::Isolated => Some(Partition::Isolated),
        };
        let partitioned = Mutex::default();
        Self { kind, partitioned }
    }

    /// The partition type of each container's cgroup. CPUs in a shared pool never become a cpuset partition.
    pub(super) fn wanted(&self, node: &ManagedNode) -> BTreeMap<GroupPath, Partition> {
        let Some(kind) = self.kind else {
            return BTreeMap::new();
        };
        let containers: Vec<&ManagedContainer> = node.containers().collect();
        let shared = |container: &ManagedContainer, cpus| {
            let others = containers.iter().filter(|other| other.id != container.id);
            let sent = others.filter_map(|other| other.sent_allowance());
            sent.into_iter().any(|sent| !sent.cpus.is_disjoint(cpus))
        };
        let wanted = containers.iter().filter_map(|container| {
            let sent = container.sent_allowance()?;
            let own = sent.quota == Quota::Unlimited && !shared(container, &sent.cpus);
            let partition = if own { kind } else { Partition::Member };
            Some((group_of(container)?, partition))
        });
        wanted.collect()
    }

    /// Sets the partition types, and dissolves the partitions of containers that terminated.
    pub(super) fn enforce(
        &self,
        hierarchy: &Hierarchy,
        wanted: &BTreeMap<GroupPath, Partition>,
        telemetry: &NodeTelemetry,
    ) {
        if self.kind.is_none() {
            return;
        }
        let mut problem = None;
        let mut partitioned = self.partitioned();
        // Partitions are dissolved first: their CPUs may go to another one.
        partitioned.retain(|path| {
            if wanted.contains_key(path) {
                return true;
            }
            let dissolved = hierarchy.group(path).and_then(|group| {
                let dissolved = group.set_partition(Partition::Member);
                match dissolved {
                    Err(error) if error.is_vanished() => group.release_unused_claims(),
                    done => done,
                }
            });
            let again = dissolved.is_err();
            keep_first(&mut problem, dissolved);
            again
        });
        let mut in_order: Vec<_> = wanted.iter().collect();
        in_order.sort_by_key(|(_, partition)| **partition != Partition::Member);
        for (path, &partition) in in_order {
            if partition == Partition::Member && !partitioned.contains(path) {
                continue;
            }
            let done = hierarchy
                .group(path)
                .and_then(|group| group.set_partition(partition));
            match partition {
                Partition::Member => partitioned.remove(path),
                _ => partitioned.insert(path.clone()),
            };
            keep_first(&mut problem, done);
        }
        telemetry.problem("partitions", problem);
    }

    fn partitioned(&self) -> MutexGuard<'_, BTreeSet<GroupPath>> {
        self.partitioned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the first error. A cgroup that vanished is none.
fn keep_first(problem: &mut Option<String>, outcome: Result<(), CgroupError>) {
    match outcome {
        Err(error) if !error.is_vanished() => {
            problem.get_or_insert_with(|| error.to_string());
        }
        _ => {}
    }
}
