//! CPUs of a container's own as a cpuset partition, if that is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_cgroup::{CgroupError, GroupPath, Hierarchy, Partition};

use super::enforce::group_of;
use super::witness::Told;
use crate::allowance::Quota;
use crate::config;
use crate::node::{Guest, Node};

/// Makes groups partitions, and remembers which.
pub(super) struct Partitions {
    /// What kind; `None` if groups are left as they are.
    kind: Option<Partition>,
    made: Mutex<BTreeSet<GroupPath>>,
}

impl Partitions {
    pub(super) fn new(config: config::PartitionKind) -> Self {
        let kind = match config {
            config::PartitionKind::None => None,
            config::PartitionKind::Root => Some(Partition::Root),
            config::PartitionKind::Isolated => Some(Partition::Isolated),
        };
        let made = Mutex::default();
        Self { kind, made }
    }

    /// What each container's group shall be. CPUs that somebody else may use as well are nobody's partition.
    pub(super) fn wanted(&self, node: &Node) -> BTreeMap<GroupPath, Partition> {
        let Some(kind) = self.kind else {
            return BTreeMap::new();
        };
        let guests: Vec<&Guest> = node.guests().collect();
        let shared = |guest: &Guest, cpus| {
            let others = guests.iter().filter(|other| other.id != guest.id);
            let told = others.filter_map(|other| other.told());
            told.into_iter().any(|told| !told.cpus.is_disjoint(cpus))
        };
        let wanted = guests.iter().filter_map(|guest| {
            let told = guest.told()?;
            let own = told.quota == Quota::Lifted && !shared(guest, &told.cpus);
            let partition = if own { kind } else { Partition::Member };
            Some((group_of(guest)?, partition))
        });
        wanted.collect()
    }

    /// Makes groups what they shall be, and takes back what containers that ended have claimed.
    pub(super) fn enforce(
        &self,
        hierarchy: &Hierarchy,
        wanted: &BTreeMap<GroupPath, Partition>,
        told: &Told,
    ) {
        if self.kind.is_none() {
            return;
        }
        let mut problem = None;
        let mut made = self.made();
        // Whoever gives CPUs back comes first: somebody else may get them.
        made.retain(|path| {
            if wanted.contains_key(path) {
                return true;
            }
            let settled = hierarchy.group(path).and_then(|group| {
                let dissolved = group.set_partition(Partition::Member);
                match dissolved {
                    Err(error) if error.is_vanished() => group.settle_claims(),
                    done => done,
                }
            });
            let again = settled.is_err();
            note(&mut problem, settled);
            again
        });
        let mut in_order: Vec<_> = wanted.iter().collect();
        in_order.sort_by_key(|(_, partition)| **partition != Partition::Member);
        for (path, &partition) in in_order {
            if partition == Partition::Member && !made.contains(path) {
                continue;
            }
            let done = hierarchy
                .group(path)
                .and_then(|group| group.set_partition(partition));
            match partition {
                Partition::Member => made.remove(path),
                _ => made.insert(path.clone()),
            };
            note(&mut problem, done);
        }
        told.problem("partitions", problem);
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<GroupPath>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A container that ended meanwhile is no problem.
fn note(problem: &mut Option<String>, outcome: Result<(), CgroupError>) {
    match outcome {
        Err(error) if !error.is_vanished() => {
            problem.get_or_insert_with(|| error.to_string());
        }
        _ => {}
    }
}
