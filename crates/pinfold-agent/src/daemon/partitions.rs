//! Turns cgroups of containers with exclusive CPUs into cpuset partitions, if configured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use pinfold_cgroup::{CgroupError, CgroupVersion, GroupPath, Hierarchy, Partition};

use super::enforcer::group_of;
use super::telemetry::NodeTelemetry;
use crate::allowance::Quota;
use crate::config;
use crate::node::{ManagedContainer, ManagedNode};

/// Creates and dissolves cpuset partitions.
pub(super) struct PartitionManager {
    /// Partition type; `None` if no partitions are configured.
    kind: Option<Partition>,
    state: Mutex<PartitionSets>,
}

/// The partitions that are known.
#[derive(Default)]
struct PartitionSets {
    partitioned: BTreeSet<GroupPath>,
    /// Cgroups whose state was read once: an earlier run of the agent may have left partitions.
    seen: BTreeSet<GroupPath>,
}

impl PartitionManager {
    pub(super) fn new(config: config::PartitionKind) -> Self {
        let kind = match config {
            config::PartitionKind::None => None,
            config::PartitionKind::Root => Some(Partition::Root),
            config::PartitionKind::Isolated => Some(Partition::Isolated),
        };
        let state = Mutex::default();
        Self { kind, state }
    }

    /// The partition type of each container's cgroup. CPUs in a shared pool never become a cpuset partition.
    pub(super) fn wanted(&self, node: &ManagedNode) -> BTreeMap<GroupPath, Partition> {
        let containers: Vec<&ManagedContainer> = node.containers().collect();
        let shared = |container: &ManagedContainer, cpus| {
            let others = containers.iter().filter(|other| other.id != container.id);
            let sent = others.filter_map(|other| other.sent_allowance());
            sent.into_iter().any(|sent| !sent.cpus.is_disjoint(cpus))
        };
        let wanted = containers.iter().filter_map(|container| {
            let sent = container.sent_allowance()?;
            let own =
                |_: &Partition| sent.quota == Quota::Unlimited && !shared(container, &sent.cpus);
            let partition = self.kind.filter(own).unwrap_or(Partition::Member);
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
        let mut problem = None;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.add_earlier(hierarchy, wanted);
        let partitioned = &mut state.partitioned;
        if self.kind.is_none() && partitioned.is_empty() {
            return;
        }
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
        telemetry.problem("PartitionRejected", problem);
    }
}

impl PartitionSets {
    /// Adds the partitions that an earlier run of the agent left. CPUs that ancestors claim for containers that have
    /// terminated since are released.
    fn add_earlier(&mut self, hierarchy: &Hierarchy, wanted: &BTreeMap<GroupPath, Partition>) {
        if hierarchy.cpuset.version == CgroupVersion::V1 {
            return;
        }
        let is_first = self.seen.is_empty();
        self.seen.retain(|path| wanted.contains_key(path));
        for path in wanted.keys() {
            if !self.seen.insert(path.clone()) {
                continue;
            }
            let Ok(group) = hierarchy.group(path) else {
                continue;
            };
            if is_first && let Err(error) = group.release_unused_claims() {
                tracing::debug!(cgroup = %path, %error, "unused claims of exclusive CPUs remain");
            }
            let state = group.partition();
            if state.is_ok_and(|state| state.partition != Partition::Member) {
                self.partitioned.insert(path.clone());
            }
        }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn partitions_of_an_earlier_run_are_dissolved_if_they_are_not_wanted_any_more() {
        for kind in [config::PartitionKind::None, config::PartitionKind::Root] {
            let root = tempfile::tempdir().expect("a folder");
            let put = |path: &str, text: &str| {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(path, text).expect("a file");
            };
            put(
                "proc/self/mountinfo",
                "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n",
            );
            put("cg/cgroup.controllers", "cpuset\n");
            for (group, partition, exclusive) in [
                ("kubepods", "member", "2-5"),
                ("kubepods/pod1", "member", "2-3"),
                ("kubepods/pod1/a", "root", "2-3"),
            ] {
                put(&format!("cg/{group}/cpuset.cpus"), "2-3\n");
                put(&format!("cg/{group}/cpuset.cpus.partition"), partition);
                put(&format!("cg/{group}/cpuset.cpus.exclusive"), exclusive);
            }
            let read = |path: &str| {
                let text = fs::read_to_string(root.path().join("cg").join(path));
                text.expect("a file").trim().to_owned()
            };
            let hierarchy = Hierarchy::find(root.path()).expect("v2");
            let (changed, _) = sync_channel(1);
            let metrics = Arc::new(crate::metrics::registry());
            let telemetry = NodeTelemetry::new(metrics, None, changed);
            let path = GroupPath::parse("kubepods/pod1/a").expect("a path");
            let wanted = BTreeMap::from([(path, Partition::Member)]);
            let manager = PartitionManager::new(kind);
            // The runtime has not connected yet.
            manager.enforce(&hierarchy, &BTreeMap::new(), &telemetry);
            manager.enforce(&hierarchy, &wanted, &telemetry);
            assert_eq!(telemetry.problems(), Vec::<String>::new(), "{kind:?}");
            let state = read("kubepods/pod1/a/cpuset.cpus.partition");
            assert_eq!(state, "member", "{kind:?}");
            // CPUs 4 and 5 were claimed for a container that has terminated.
            assert_eq!(read("kubepods/cpuset.cpus.exclusive"), "", "{kind:?}");
        }
    }
}
