//! Applies the allowances of containers: sends them to the runtime, writes cgroups and CPU affinities.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nri::Handle;
use pinfold_cgroup::{CpuTimeLimit, GroupPath, Hierarchy};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::ContainerId;
use pinfold_kube::state::CpuManagerState;
use pinfold_standalone::confine_process;

use super::partitions::PartitionManager;
use super::telemetry::NodeTelemetry;
use crate::allowance::{Allowance, Quota};
use crate::config::{CgroupsConfig, DirectWrites};
use crate::drift::{
    self, ContainerRef, DriftCause, DriftMonitor, Evidence, RepairLimits, RepairOutcome,
    RuntimeSpec, WatchedContainer,
};
use crate::metrics::catalogue;
use crate::node::{ManagedContainer, ManagedNode, Update};
use crate::runtime::{self, lock};
use pinfold_journal::PinnedProcess;

/// Sends container updates to the runtime, writes cgroups, and repairs drift.
pub(super) struct Enforcer {
    pub(super) node: Arc<Mutex<ManagedNode>>,
    pub(super) handle: Option<Handle>,
    /// The cgroup file systems; `None` if the agent does not write cgroups, or there are none.
    pub(super) hierarchy: Option<Hierarchy>,
    pub(super) config: Mutex<CgroupsConfig>,
    pub(super) partitions: PartitionManager,
    pub(super) telemetry: Arc<NodeTelemetry>,
    /// Held while cgroups are written, so that drift repair and updates do not overlap.
    pub(super) writing: Mutex<()>,
}

/// The update sequence number of each container at the last scan.
pub(super) type UpdateSeqs = BTreeMap<ContainerId, u64>;

impl Enforcer {
    /// Finds the cgroup file systems, unless the configuration says not to write cgroups.
    pub(super) fn hierarchy(
        config: &CgroupsConfig,
        telemetry: &NodeTelemetry,
    ) -> Option<Hierarchy> {
        if config.direct_writes == DirectWrites::Never {
            return None;
        }
        match Hierarchy::find(Path::new("/")) {
            Ok(hierarchy) => Some(hierarchy),
            Err(error) => {
                telemetry.problem("cgroups", Some(error.to_string()));
                None
            }
        }
    }

    /// The current configuration.
    pub(super) fn config(&self) -> CgroupsConfig {
        let config = self.config.lock();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the configuration.
    pub(super) fn reconfigure(&self, new: CgroupsConfig) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Sends container updates to the runtime until all senders are dropped.
    pub(super) fn run(&self, updates: &Receiver<Vec<Update>>) {
        while let Ok(first) = updates.recv() {
            let queued = first.into_iter().chain(updates.try_iter().flatten());
            let mut containers: BTreeSet<String> = queued.map(|update| update.container).collect();
            while !containers.is_empty() {
                let newest = newest_updates(&lock(&self.node), containers);
                self.send_updates(&newest);
                // The answer to a request of the runtime may have overtaken what was sent just now.
                containers = outdated(&lock(&self.node), &newest);
            }
            self.apply_partitions();
        }
    }

    /// Turns the cgroups of containers with exclusive CPUs into cpuset partitions, if configured.
    fn apply_partitions(&self) {
        let wanted = self.partitions.wanted(&lock(&self.node));
        if let Some(hierarchy) = &self.hierarchy {
            self.partitions.enforce(hierarchy, &wanted, &self.telemetry);
        }
    }

    /// Sends updates to the runtime, and writes the cgroups of external ones, of those with exclusive CPUs, and of those that
    /// the runtime failed to update.
    fn send_updates(&self, updates: &[Update]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (outside, inside): (Vec<&Update>, Vec<&Update>) =
            updates.iter().partition(|update| update.is_external());
        let failed = self.update_runtime(&inside);
        let direct = self.config().direct_writes;
        let directly = |update: &&Update| {
            direct == DirectWrites::Always
                || failed.contains(&update.container)
                || update.allowance.quota == Quota::Unlimited
        };
        let inside = inside.into_iter().filter(directly);
        for update in inside.chain(outside) {
            let (process, group) = {
                let node = lock(&self.node);
                let container = node.container(&update.container);
                let process = container.and_then(ManagedContainer::process).cloned();
                (process, container.and_then(group_of))
            };
            if let Some(process) = process {
                self.confine(&process, &update.allowance);
            } else if let Some(group) = group {
                self.write(&group, &update.allowance);
            }
        }
    }

    /// Sets the CPU affinity of an external process, unless it has terminated.
    fn confine(&self, held: &PinnedProcess, allowance: &Allowance) {
        if !held.is_alive() {
            return;
        }
        let confined = confine_process(held.process, &allowance.cpus);
        if let Err(error) = confined
            && held.is_alive()
        {
            tracing::warn!(pid = held.process.pid, %error, "setting CPU affinity failed");
        }
    }

    /// Sets the CPU affinity of all external processes again, in case another program changed it.
    fn confine_all(&self) {
        let held: Vec<(PinnedProcess, Allowance)> = {
            let node = lock(&self.node);
            let held = node.containers();
            let held = held
                .filter_map(|container| Some((container.process()?, container.sent_allowance()?)));
            held.map(|(held, sent)| (held.clone(), sent.clone()))
                .collect()
        };
        for (held, allowance) in held {
            self.confine(&held, &allowance);
        }
    }

    /// Sends updates to the runtime. Returns the ids of the containers that it did not update.
    fn update_runtime(&self, updates: &[&Update]) -> Vec<String> {
        if updates.is_empty() {
            return Vec::new();
        }
        let wanted = updates.iter().map(|one| runtime::update(one)).collect();
        let outcome = self
            .handle
            .as_ref()
            .map(|all| all.update_containers(wanted));
        match outcome {
            Some(Ok(failed)) => failed.into_iter().map(|one| one.container_id).collect(),
            Some(Err(error)) => {
                let containers = updates.len();
                tracing::warn!(containers, %error, "container update through NRI failed");
                updates.iter().map(|one| one.container.clone()).collect()
            }
            None => updates.iter().map(|one| one.container.clone()).collect(),
        }
    }

    fn write(&self, group: &GroupPath, allowance: &Allowance) {
        let Some(hierarchy) = &self.hierarchy else {
            return;
        };
        let online = lock(&self.node)
            .journaled()
            .ledger()
            .rules()
            .machine()
            .online()
            .clone();
        let migrate = Some(self.config().migrate_memory);
        match drift::enforce(hierarchy, group, allowance, &online, migrate) {
            Ok(_) => {}
            Err(error) if error.is_vanished() => {}
            Err(error) => tracing::warn!(cgroup = %group, %error, "cgroup write failed"),
        }
    }

    /// Compares the cgroups of all containers with their allowances, and repairs drift. Skips containers updated since the
    /// last scan: the runtime may not have applied the update yet.
    pub(super) fn repair_drift(
        &self,
        monitor: &mut DriftMonitor,
        last: &mut UpdateSeqs,
        kubelet: Option<CpuManagerState>,
    ) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.confine_all();
        let Some(hierarchy) = &self.hierarchy else {
            return;
        };
        self.apply_partitions();
        let (containers, changes, online) = {
            let node = lock(&self.node);
            let containers: Vec<WatchedContainer> = node.containers().filter_map(watched).collect();
            let changes = node
                .containers()
                .map(|container| (container.id.as_str().into(), container.update_seq()));
            let online: CpuSet = node.journaled().ledger().rules().machine().online().clone();
            (containers, changes.collect::<UpdateSeqs>(), online)
        };
        let evidence = Evidence { online, kubelet };
        let counted = DriftCause::ALL.map(|cause| monitor.counters(cause).drifted);
        let is_settled = |watched: &WatchedContainer| {
            let node = lock(&self.node);
            let current = node
                .container(watched.container.id.as_str())
                .map(ManagedContainer::update_seq)
                .filter(|&number| number > 0);
            current.is_some() && current == last.get(&watched.container.id).copied()
        };
        let now = Instant::now();
        let scan = monitor.scan_settled(hierarchy, &containers, &evidence, now, &is_settled);
        *last = changes;
        let metrics = &self.telemetry.metrics;
        for (cause, counted) in DriftCause::ALL.into_iter().zip(counted) {
            let more = monitor.counters(cause).drifted.saturating_sub(counted);
            metrics.add(&catalogue::DRIFT, &[cause.label()], more);
        }
        let lasting = scan.drifts.iter();
        let lasting = lasting.filter(|(_, outcome)| !matches!(outcome, RepairOutcome::Repaired));
        let lasting = u32::try_from(lasting.count()).unwrap_or(u32::MAX);
        metrics.set(&catalogue::DRIFTED, &[], f64::from(lasting));
        for (drift, outcome) in &scan.drifts {
            match outcome {
                RepairOutcome::Repaired => tracing::warn!(%drift, "cgroup drift repaired"),
                RepairOutcome::BackedOff(_) => {
                    tracing::warn!(%drift, "cgroup drift not repaired: repairs are paused");
                }
                RepairOutcome::NotRepairable => {
                    tracing::warn!(%drift, "cgroup drift not repaired: a CPU is offline");
                }
                RepairOutcome::Failed(error) => {
                    tracing::warn!(%drift, %error, "cgroup drift repair failed");
                }
                RepairOutcome::ContainerEnded => {
                    tracing::debug!(%drift, "cgroup drift not repaired: the container terminated");
                }
            }
        }
        for (container, error) in &scan.unreadable {
            tracing::warn!(%container, %error, "reading cgroup failed");
        }
        let conflict = scan.conflicts.first().map(ToString::to_string);
        if conflict.is_some() || monitor.conflicts() == 0 {
            self.telemetry.problem("cgroup-conflict", conflict);
        }
    }
}

/// The newest allowances of containers, whatever was queued: an older one must not overtake a newer one.
fn newest_updates(node: &ManagedNode, containers: BTreeSet<String>) -> Vec<Update> {
    let newest = containers.into_iter().filter_map(|container| {
        let allowance = node.container(&container)?.sent_allowance()?.clone();
        Some(Update {
            container,
            allowance,
        })
    });
    newest.collect()
}

/// The containers whose allowance has changed since these updates were made.
fn outdated(node: &ManagedNode, sent: &[Update]) -> BTreeSet<String> {
    let changed = sent.iter().filter(|update| {
        let now = node.container(&update.container);
        let now = now.and_then(ManagedContainer::sent_allowance);
        now.is_some_and(|now| *now != update.allowance)
    });
    changed.map(|update| update.container.clone()).collect()
}

/// The cgroup of a container.
pub(super) fn group_of(container: &ManagedContainer) -> Option<GroupPath> {
    GroupPath::of_container(&container.cgroup).ok()
}

/// The container for the drift monitor; `None` if it is not pinned or has no cgroup.
fn watched(container: &ManagedContainer) -> Option<WatchedContainer> {
    let spec = &container.resources;
    let quota = spec.cpu_quota.and_then(|quota| u64::try_from(quota).ok());
    let period = spec.cpu_period.unwrap_or(CpuTimeLimit::DEFAULT_PERIOD);
    Some(WatchedContainer {
        container: ContainerRef {
            id: container.id.as_str().into(),
            pod: container.pod.clone(),
            name: container.name.clone(),
        },
        group: group_of(container)?,
        expected: container.sent_allowance()?.clone(),
        spec: RuntimeSpec {
            cpus: spec
                .cpus
                .parse()
                .ok()
                .filter(|cpus: &CpuSet| !cpus.is_empty()),
            mems: None,
            cpu_time: spec.cpu_quota.map(|_| CpuTimeLimit { quota, period }),
        },
    })
}

/// A drift monitor with the default repair limits.
pub(super) fn drift_monitor(config: &CgroupsConfig) -> DriftMonitor {
    DriftMonitor::new(RepairLimits::default(), Some(config.migrate_memory))
}

#[cfg(test)]
mod tests {
    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Rules;
    use pinfold_core::settings::{CpuManagerPolicy, Settings};
    use pinfold_journal::{JournalLimits, Timestamp};

    use super::*;
    use crate::journaled_ledger::JournaledLedger;
    use crate::node::{KubeletPins, Rulebook, UnknownContainers};

    fn pod(uid: &str, resources: &str) -> pinfold_kube::pod::PodObject {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {uid}, uid: {uid}}}\nspec:\n  containers:\n  \
             - {{name: main, resources: {resources}}}\n"
        );
        let read = pinfold_kube::pod::read("pod.yaml", text.as_bytes()).expect("a pod");
        read.value.into_iter().next().expect("a pod")
    }

    #[test]
    fn the_newest_allowance_is_sent_and_one_that_was_overtaken_is_sent_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let hardware = pinfold_hardware::synthetic::read("4 cores").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("a machine");
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some("1".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Rules::new(Arc::new(machine), settings).expect("settings that fit");
        let limits = JournalLimits::default();
        let journaled = JournaledLedger::open(folder.path(), Arc::new(rules), limits);
        let pins = KubeletPins::default();
        let unknown = UnknownContainers::Adopt;
        let mut node = ManagedNode::new(
            journaled.expect("a journal"),
            Rulebook::Kubelet,
            unknown,
            pins,
        );
        let now = Timestamp::UNIX_EPOCH;
        let shared = node.admit(&pod("shared", "{}"), &mut NoPreference, now);
        shared.expect("admitted");
        let held = node.hold("/group", &"shared".into(), &"main".into(), now);
        held.expect("journaled");
        let queued = BTreeSet::from(["/group".to_owned(), "/gone".to_owned()]);
        let sent = newest_updates(&node, queued.clone());
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].allowance.cpus.to_string(), "0-3");
        assert!(outdated(&node, &sent).is_empty());
        let own = pod("own", "{limits: {cpu: 1, memory: 1Mi}}");
        node.admit(&own, &mut NoPreference, now).expect("admitted");
        assert_eq!(
            outdated(&node, &sent),
            BTreeSet::from(["/group".to_owned()])
        );
        let sent = newest_updates(&node, queued);
        assert_eq!(sent[0].allowance.cpus.to_string(), "0,2-3");
    }
}
