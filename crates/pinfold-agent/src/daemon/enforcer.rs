//! Applies the allowances of containers: sends them to the runtime, writes cgroups and CPU affinities.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nri::{CallError, Handle};
use pinfold_agent_api::DriftStatus;
use pinfold_cgroup::{CgroupError, CgroupVersion, CpuTimeLimit, GroupPath, Hierarchy};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::ContainerId;
use pinfold_kube::state::CpuManagerState;
use pinfold_standalone::confine_process;

use super::partitions::PartitionManager;
use super::telemetry::NodeTelemetry;
use super::unmet_allowances::UnmetAllowance;
use crate::allowance::{Allowance, Quota};
use crate::cgroup_writer::CgroupWriter;
use crate::config::{CgroupsConfig, DirectWrites};
use crate::drift::{
    ContainerRef, DriftCause, DriftMonitor, DriftScan, Evidence, RepairConflict, RepairLimits,
    RepairOutcome, RuntimeSpec, RuntimeUpdates, WatchedContainer,
};
use crate::kubernetes::CGROUP_CONFLICT;
use crate::metrics::catalogue;
use crate::node::{ManagedContainer, ManagedNode, PodWarning, Update};
use crate::runtime::{self, Telemetry, lock};
use crate::systemd::{SystemBus, UnitManager};
use pinfold_journal::PinnedProcess;

/// Sends container updates to the runtime, writes cgroups, and repairs drift.
pub(super) struct Enforcer {
    pub(super) node: Arc<Mutex<ManagedNode>>,
    pub(super) handle: Option<Handle>,
    /// Writes cgroups; `None` if the agent does not, or there are no cgroup file systems.
    pub(super) writer: Option<Arc<CgroupWriter>>,
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
    pub(super) fn writer(
        config: &CgroupsConfig,
        telemetry: &NodeTelemetry,
    ) -> Option<Arc<CgroupWriter>> {
        if config.direct_writes == DirectWrites::Never {
            return None;
        }
        let systemd = config.systemd_bus.as_deref().map(SystemBus::new);
        let systemd = systemd.map(|bus| -> Arc<dyn UnitManager> { Arc::new(bus) });
        match Hierarchy::find(Path::new("/")) {
            Ok(hierarchy) => Some(Arc::new(CgroupWriter::new(hierarchy, systemd))),
            Err(error) => {
                telemetry.problem("ControlGroupsNotFound", Some(error.to_string()));
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
            self.send_newest(queued.map(|update| update.container).collect());
            self.apply_partitions();
        }
    }

    /// Sends the newest allowances of containers.
    fn send_newest(&self, mut containers: BTreeSet<String>) {
        while !containers.is_empty() {
            let newest = newest_updates(&lock(&self.node), containers);
            self.send_updates(&newest);
            // The answer to a request of the runtime may have overtaken what was sent just now.
            containers = outdated(&lock(&self.node), &newest);
        }
    }

    /// Turns the cgroups of containers with exclusive CPUs into cpuset partitions, if configured.
    fn apply_partitions(&self) {
        let wanted = self.partitions.wanted(&lock(&self.node));
        if let Some(writer) = &self.writer {
            self.partitions
                .enforce(writer.hierarchy(), &wanted, &self.telemetry);
        }
    }

    /// Sends updates to the runtime, and writes the cgroups of external ones and of those that the runtime failed to update.
    /// The quota of the pods of containers with exclusive CPUs is removed: the runtime does not know their cgroups.
    fn send_updates(&self, updates: &[Update]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (outside, inside): (Vec<&Update>, Vec<&Update>) =
            updates.iter().partition(|update| update.is_external());
        let failed = self.update_runtime(&inside);
        let direct = self.config().direct_writes;
        let writes = |writer: &CgroupWriter, update: &Update| {
            // On cgroup v1 the runtime does not set whether memory is migrated, and systemd manages no cpusets.
            let is_v1 = writer.hierarchy().cpuset.version == CgroupVersion::V1;
            update.is_external()
                || failed.contains(&update.container)
                || direct == DirectWrites::Always
                || (is_v1 && update.allowance.quota == Quota::Unlimited)
        };
        for update in inside.into_iter().chain(outside) {
            let (process, group) = {
                let node = lock(&self.node);
                let container = node.container(&update.container);
                let process = container.and_then(ManagedContainer::process).cloned();
                (process, container.and_then(group_of))
            };
            match (process, group, &self.writer) {
                (Some(process), ..) => self.confine(&process, &update.allowance),
                (None, Some(group), Some(writer)) => {
                    let written = match writes(writer, update) {
                        true => self.write(writer, &group, &update.allowance),
                        false => writer.lift_pod_quota(&group, &update.allowance),
                    };
                    match written {
                        Err(error) if !error.is_vanished() => {
                            tracing::warn!(cgroup = %group, %error, "cgroup write failed");
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        self.report_systemd();
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
            // The update was caused by the runtime's list of containers, or the runtime is gone.
            Some(Err(CallError::NotConnected)) => {
                updates.iter().map(|one| one.container.clone()).collect()
            }
            Some(Err(error)) => {
                let containers = updates.len();
                tracing::warn!(containers, %error, "container update through NRI failed");
                updates.iter().map(|one| one.container.clone()).collect()
            }
            None => updates.iter().map(|one| one.container.clone()).collect(),
        }
    }

    fn write(
        &self,
        writer: &CgroupWriter,
        group: &GroupPath,
        allowance: &Allowance,
    ) -> Result<(), CgroupError> {
        let online = lock(&self.node)
            .journaled()
            .ledger()
            .rules()
            .machine()
            .online()
            .clone();
        let migrate = Some(self.config().migrate_memory);
        let written = writer.enforce(group, allowance, &online, migrate);
        written.map(drop)
    }

    /// Reports whether systemd takes the properties of its units.
    fn report_systemd(&self) {
        let error = self.writer.as_ref().and_then(|one| one.systemd_error());
        self.telemetry.problem("SystemdNotReached", error);
    }

    /// Compares the cgroups of all containers with their allowances, and repairs drift. Skips containers updated since the
    /// last scan: the runtime may not have applied the update yet.
    pub(super) fn repair_drift(
        &self,
        monitor: &mut DriftMonitor,
        last: &mut UpdateSeqs,
        kubelet: Option<CpuManagerState>,
    ) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.confine_all();
        let Some(writer) = &self.writer else {
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
        let now = Instant::now();
        let runtime = SettledUpdates {
            enforcer: self,
            last,
        };
        let scan = monitor.scan(writer, &runtime, &containers, &evidence, now);
        drop(writing);
        // A repair may have overwritten an allowance that changed meanwhile.
        let repaired = scan.drifts.iter().map(|(drift, _)| Update {
            container: drift.container.id.to_string(),
            allowance: drift.expected.clone(),
        });
        let repaired: Vec<Update> = repaired.collect();
        let overwritten = outdated(&lock(&self.node), &repaired);
        self.send_newest(overwritten);
        self.report_systemd();
        self.report_unmet(&scan);
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
        let repaired = DriftCause::ALL.map(|cause| monitor.counters(cause).repaired);
        self.telemetry.set_drift(DriftStatus {
            drifted_containers: lasting,
            repaired: repaired.into_iter().fold(0, u64::saturating_add),
        });
        let conflicts = u32::try_from(monitor.conflicts()).unwrap_or(u32::MAX);
        metrics.set(&catalogue::CGROUP_CONFLICTS, &[], f64::from(conflicts));
        for (drift, outcome) in &scan.drifts {
            match outcome {
                RepairOutcome::Repaired => tracing::warn!(%drift, "cgroup drift repaired"),
                RepairOutcome::BackedOff(_) => {
                    tracing::warn!(%drift, "cgroup drift not repaired: repairs are paused");
                }
                RepairOutcome::NotRepairable => {
                    tracing::warn!(%drift, "cgroup drift cannot be repaired");
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
        for conflict in &scan.conflicts {
            self.warn_of_conflict(conflict);
        }
        let conflict = scan.conflicts.first().map(ToString::to_string);
        if conflict.is_some() || monitor.conflicts() == 0 {
            self.telemetry.problem("CgroupConflict", conflict);
        }
    }
}

impl Enforcer {
    fn warn_of_conflict(&self, conflict: &RepairConflict) {
        let pod = lock(&self.node).pod_identity(&conflict.container.pod);
        if let Some(pod) = pod {
            let (container, cause) = (&conflict.container.name, &conflict.cause);
            self.telemetry.warn_pod(PodWarning {
                pod,
                reason: CGROUP_CONFLICT,
                message: format!(
                    "the control group of container {container} is overwritten after every repair: {cause}"
                ),
            });
        }
    }

    /// Reports the containers that may use other CPUs than the journal has, and were not repaired.
    fn report_unmet(&self, scan: &DriftScan) {
        let node = lock(&self.node);
        let unmet = scan.drifts.iter().filter_map(|(drift, outcome)| {
            let lasts = !matches!(
                outcome,
                RepairOutcome::Repaired | RepairOutcome::ContainerEnded
            );
            if !lasts || !drift.has_other_cpus() {
                return None;
            }
            let container = node.container(drift.container.id.as_str())?;
            Some(UnmetAllowance {
                resident: container.resident().clone(),
                container: container.name.clone(),
                pod: node.pod_identity(container.resident()),
                cpus: drift.found.state.effective_cpus.clone(),
                reason: drift.to_string(),
            })
        });
        let unmet: Vec<UnmetAllowance> = unmet.collect();
        drop(node);
        self.telemetry.set_unmet_allowances(unmet);
    }
}

/// Repairs drift through the runtime, for containers whose last update it had time to apply.
struct SettledUpdates<'a> {
    enforcer: &'a Enforcer,
    /// The update sequence numbers of the scan before.
    last: &'a UpdateSeqs,
}

impl RuntimeUpdates for SettledUpdates<'_> {
    fn is_settled(&self, watched: &WatchedContainer) -> bool {
        let node = lock(&self.enforcer.node);
        let current = node
            .container(watched.container.id.as_str())
            .map(ManagedContainer::update_seq)
            .filter(|&number| number > 0);
        current.is_some() && current == self.last.get(&watched.container.id).copied()
    }

    fn update(&self, watched: &WatchedContainer) -> bool {
        let update = Update {
            container: watched.container.id.to_string(),
            allowance: watched.expected.clone(),
        };
        let known = !update.is_external() && self.enforcer.handle.is_some();
        known && self.enforcer.update_runtime(&[&update]).is_empty()
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

    /// A node with four CPUs, one of them reserved.
    fn node(folder: &Path) -> ManagedNode {
        let hardware = pinfold_hardware::synthetic::read("4 cores").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("a machine");
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some("1".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Rules::new(Arc::new(machine), settings).expect("settings that fit");
        let limits = JournalLimits::default();
        let journaled = JournaledLedger::open(folder, Arc::new(rules), limits);
        let pins = KubeletPins::default();
        let unknown = UnknownContainers::Adopt;
        ManagedNode::new(
            journaled.expect("a journal"),
            Rulebook::Kubelet,
            unknown,
            pins,
        )
    }

    fn enforcer(
        node: Arc<Mutex<ManagedNode>>,
        writer: Option<CgroupWriter>,
        events: Option<super::super::telemetry::NodeEvents>,
    ) -> Enforcer {
        let (changed, _) = std::sync::mpsc::sync_channel(1);
        let metrics = Arc::new(crate::metrics::registry());
        Enforcer {
            node,
            handle: None,
            writer: writer.map(Arc::new),
            config: Mutex::new(crate::AgentConfig::default().cgroups),
            partitions: PartitionManager::new(crate::config::PartitionKind::None),
            telemetry: Arc::new(NodeTelemetry::new(metrics, events, changed)),
            writing: Mutex::default(),
        }
    }

    #[test]
    fn a_container_whose_repairs_are_overwritten_is_an_event_of_its_pod() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut node = node(folder.path());
        let now = Timestamp::UNIX_EPOCH;
        let own = pod("own", "{limits: {cpu: 1, memory: 1Mi}}");
        node.admit(&own, &mut NoPreference, now).expect("admitted");
        let queue = crate::kubernetes::EventQueue::default();
        let events = super::super::telemetry::NodeEvents {
            queue: queue.clone(),
            node: "worker-1".to_owned(),
        };
        let enforcer = enforcer(Arc::new(Mutex::new(node)), None, Some(events));
        enforcer.warn_of_conflict(&RepairConflict {
            container: ContainerRef {
                id: "id".into(),
                pod: "own".into(),
                name: "main".into(),
            },
            cause: DriftCause::ALL[0],
            repairs: 3,
            until: Instant::now(),
        });
        let queue = format!("{queue:?}");
        for named in [
            r#"name: "own""#,
            r#"reason: "CgroupConflict""#,
            "container main",
        ] {
            assert!(queue.contains(named), "{named}: {queue}");
        }
    }

    #[test]
    fn the_newest_allowance_is_sent_and_one_that_was_overtaken_is_sent_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut node = node(folder.path());
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

    const SCOPE: &str = "/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope";

    /// A systemd during whose first call another pod gets CPUs of the shared pool.
    #[derive(Debug)]
    struct AdmitsMeanwhile {
        node: Arc<Mutex<ManagedNode>>,
        admitted: std::sync::Once,
    }

    impl UnitManager for AdmitsMeanwhile {
        fn set_properties(
            &self,
            _: &str,
            _: &crate::systemd::UnitProperties,
        ) -> Result<(), crate::systemd::SystemdError> {
            self.admitted.call_once(|| admit(&self.node, "second"));
            Ok(())
        }
    }

    fn admit(node: &Mutex<ManagedNode>, uid: &str) {
        let own = pod(uid, "{limits: {cpu: 1, memory: 1Mi}}");
        let admitted = lock(node).admit(&own, &mut NoPreference, Timestamp::UNIX_EPOCH);
        admitted.expect("admitted");
    }

    #[test]
    fn an_allowance_that_changes_during_a_repair_is_written_after_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        put(
            "proc/self/mountinfo",
            "2 0 0:2 / /cpu rw - cgroup cgroup rw,cpu\n3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n",
        );
        put("cg/cgroup.controllers", "cpuset\n");
        let slice = "/kubepods.slice/kubepods-pod1.slice";
        for group in ["/kubepods.slice", slice, SCOPE] {
            for name in ["cpus", "cpus.effective", "mems", "mems.effective"] {
                put(&format!("cg{group}/cpuset.{name}"), "0-3\n");
            }
            put(&format!("cpu{group}/cpu.cfs_quota_us"), "-1\n");
            put(&format!("cpu{group}/cpu.cfs_period_us"), "100000\n");
        }
        let now = Timestamp::UNIX_EPOCH;
        let mut node = node(&folder.path().join("state"));
        let shared = node.admit(&pod("shared", "{}"), &mut NoPreference, now);
        shared.expect("admitted");
        let held = node.hold(SCOPE, &"shared".into(), &"main".into(), now);
        held.expect("journaled");
        let node = Arc::new(Mutex::new(node));
        admit(&node, "first");
        let systemd = AdmitsMeanwhile {
            node: node.clone(),
            admitted: std::sync::Once::new(),
        };
        let hierarchy = Hierarchy::find(folder.path()).expect("cgroup file systems");
        let writer = CgroupWriter::new(hierarchy, Some(Arc::new(systemd)));
        let enforcer = enforcer(node.clone(), Some(writer), None);
        let seq = lock(&node)
            .container(SCOPE)
            .map(ManagedContainer::update_seq);
        let mut last = UpdateSeqs::from([(SCOPE.into(), seq.expect("held"))]);
        let mut monitor = drift_monitor(&enforcer.config());
        enforcer.repair_drift(&mut monitor, &mut last, None);
        let written = std::fs::read_to_string(folder.path().join(format!("cg{SCOPE}/cpuset.cpus")));
        let newest = lock(&node).container(SCOPE).cloned();
        let newest = newest.and_then(|one| one.sent_allowance().cloned());
        let newest = newest.expect("pinned").cpus.to_string();
        assert_eq!(lock(&node).journaled().ledger().admitted_pods().len(), 3);
        assert_eq!(written.expect("a file").trim(), newest);
        // The played kernel applies nothing, which is reported.
        let problems = enforcer.telemetry.problems();
        let unmet = "container main of pod shared: CPUs 0-3 instead of ";
        let is_reported = problems.iter().any(|problem| problem.starts_with(unmet));
        assert!(is_reported, "{problems:?}");
    }
}
