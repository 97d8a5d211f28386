//! [`Service`]: the agent's HTTP API, health probes and metrics in mode `manage`.

use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use nri::Handle;
use pinfold_cgroup::{GroupPath, Hierarchy};
use pinfold_core::device::NoPreference;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::remedy::{self, Effort};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_devices::align;
use pinfold_devices::pod_resources::PodResourcesServer;
use pinfold_devices::{ContainerEdits, DeviceHost};
use pinfold_kube::pod::{self, PodObject};
use pinfold_render::explain;
use pinfold_standalone::confine_process;
use pinfold_standalone::process::reason_not_to_confine;

use super::AgentError;
use super::counter_totals::CounterTotals;
use super::host::LocalMachine;
use super::node_snapshot::NodeSnapshot;
use super::own_node::OwnNode;
use super::readiness::ReadinessSource;
use super::telemetry::NodeTelemetry;
use crate::allowance::Allowance;
use crate::cgroup_writer::CgroupWriter;
use crate::config::{AgentConfig, DirectWrites};
use crate::http::{
    AdmissionResponse, Agent, AgentApiError, AgentStatus, ApiErrorKind, DaemonStatus, Health,
    HostMount, JournalPage, PinResult, PinTarget, PodReport, RulesChangeReport, TakeoverStatus,
};
use crate::journaled_ledger::{JournaledLedgerError, RulesChange};
use crate::kubernetes::{OtherWriters, Publisher, Readiness};
use crate::metrics::{Metrics, catalogue};
use crate::node::{self, AdmitError, ManagedNode, Update};
use crate::runtime::{Telemetry, lock, record_late_changes};
use pinfold_journal::{Journal, JournalError, PinnedProcess, Timestamp};

/// The state behind the API of a managed node.
pub(super) struct Service {
    pub(super) node: Arc<Mutex<ManagedNode>>,
    pub(super) name: String,
    pub(super) config: AgentConfig,
    pub(super) machine: Mutex<LocalMachine>,
    pub(super) telemetry: Arc<NodeTelemetry>,
    pub(super) handle: Option<Handle>,
    pub(super) devices: Option<Arc<DeviceHost>>,
    /// Writes cgroups; `None` if the agent does not.
    pub(super) writer: Option<Arc<CgroupWriter>>,
    pub(super) updates: SyncSender<Vec<Update>>,
    /// The podresources API; `None` if the device host serves it.
    pub(super) pod_resources: Option<PodResourcesServer>,
    /// CPU manager policy in the kubelet's `cpu_manager_state`.
    pub(super) kubelet_policy: Mutex<Option<String>>,
    /// The Node object, as far as the agent has applied it.
    pub(super) own_node: Mutex<OwnNode>,
    /// Other writers of the Node's objects, and their publisher; `None` without an API server.
    pub(super) cluster: Option<(OtherWriters, Publisher)>,
    /// Held while a request reads the journal file, so that only one page of it is in memory.
    pub(super) journal_read_lock: Mutex<()>,
    pub(super) counter_totals: Mutex<CounterTotals>,
    /// The last known error of writing the journal, and whether the journal must be reopened.
    pub(super) journal_problem: Mutex<Option<(String, bool)>>,
}

/// The current time.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// Hint of errors about unknown pods.
const NO_SUCH_POD: &str = "GET /v1/pods lists the pods";

impl Service {
    /// Whether the runtime is connected; `None` if the agent uses no NRI.
    fn is_connected(&self) -> Option<bool> {
        let handle = self.handle.as_ref();
        handle.map(|handle| handle.state().is_connected())
    }

    /// Queues container updates, and has the node's state published again.
    pub(super) fn publish_updates(&self, updates: Vec<Update>) {
        self.telemetry.node_changed();
        if !updates.is_empty() {
            let _ = self.updates.try_send(updates);
        }
    }

    /// Retries journal writes and the releases that are pending because of them.
    pub(super) fn release_pending(&self) {
        let folder = lock(&self.node).journaled().folder_to_probe();
        let has_space = folder.is_some_and(|folder| Journal::probe_disk(&folder).is_ok());
        let settled = {
            let mut node = lock(&self.node);
            if has_space {
                node.journaled_mut().clear_write_error();
            }
            let settled = node.release_pending(now());
            record_late_changes(&mut node, &*self.telemetry);
            settled
        };
        match settled {
            Ok(None) => {}
            Ok(Some(updates)) => self.publish_updates(updates),
            Err(error) => self.telemetry.record_error(&error),
        }
    }

    /// A copy of the node's state, for publishing.
    pub(super) fn snapshot(&self) -> NodeSnapshot {
        let mut node = lock(&self.node);
        NodeSnapshot {
            pools: node.koordinator_pools(),
            ledger: node.journaled().ledger().clone(),
            records: node.journaled().records().clone(),
            generation: node.journaled().generation(),
            kubelet_policy: self.kubelet_policy(),
            own_node: self.own_node().clone(),
        }
    }

    /// CPU manager policy in the kubelet's `cpu_manager_state` at the last check.
    pub(super) fn kubelet_policy(&self) -> Option<String> {
        let policy = self.kubelet_policy.lock();
        policy.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Progress of the takeover from the kubelet; `None` if there is nothing to take over.
    fn takeover(&self, node: &ManagedNode) -> Option<TakeoverStatus> {
        let kubelet_policy = self.kubelet_policy();
        let pinned = node.pinned_by_kubelet();
        let pins = self.config.takeover.cpu_set_allocator;
        if pins && pinned.is_empty() && kubelet_policy.is_none() {
            return None;
        }
        let policy = kubelet_policy.as_deref();
        let is_static = policy.is_some_and(|name| name.parse() == Ok(CpuManagerPolicy::Static));
        let phase = match pins {
            false => "kubelet",
            true if pinned.is_empty() && !is_static => "done",
            true => "in-progress",
        };
        Some(TakeoverStatus {
            phase: phase.to_owned(),
            kubelet_policy,
            pinned_pods: pinned,
        })
    }

    /// Plans a change to other kubelet settings.
    fn compute_plan(
        &self,
        settings: &[u8],
    ) -> Result<(RulesChange, RulesChangeReport), AgentApiError> {
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = machine
            .settings("the settings", settings)
            .and_then(|settings| machine.rules_of(settings, self.config.dialect));
        let rules = rules.map_err(|error| match error {
            AgentError::Settings(_) => AgentApiError::new(
                ApiErrorKind::Conflict,
                error.to_string(),
                "`pinfold check --config FILE` explains the settings",
            ),
            error => AgentApiError::new(ApiErrorKind::BadInput, error.to_string(), ""),
        })?;
        let node = lock(&self.node);
        let journaled = node.journaled();
        let plan = journaled.plan_rules_change(&rules);
        let plan = plan.map_err(|error| api_error(&error.into()))?;
        let report = plan.report(journaled.ledger());
        Ok((plan, report))
    }

    /// Applies a planned change of the rules.
    pub(super) fn apply_plan(&self, plan: RulesChange) -> Result<(), JournaledLedgerError> {
        let (updates, moves) = {
            let mut node = lock(&self.node);
            let moves = node::moves(&plan, node.journaled().ledger());
            (node.apply_plan(plan, now())?, moves)
        };
        self.publish_updates(updates);
        self.telemetry.record_moves(moves);
        Ok(())
    }

    /// Adds environment, mounts and device files from the device plugins to a pod report.
    fn add_device_edits(&self, report: &mut PodReport) -> Result<(), AgentApiError> {
        let Some(host) = &self.devices else {
            return Ok(());
        };
        for container in &mut report.containers {
            let devices = lock(&self.node).devices(&report.uid, &container.name);
            if devices.is_empty() {
                continue;
            }
            let edits: ContainerEdits = host
                .allocate(&report.uid, &container.name, &devices)
                .map_err(|error| {
                    let hint = "the pod was released; retry when the device plugin works again";
                    AgentApiError::new(ApiErrorKind::Unavailable, error.to_string(), hint)
                })?;
            container.env = edits.envs;
            container.mounts = edits
                .mounts
                .into_iter()
                .map(|mount| HostMount {
                    host_path: mount.host_path,
                    container_path: mount.container_path,
                    read_only: mount.read_only,
                })
                .collect();
            container.device_files = edits
                .devices
                .into_iter()
                .map(|device| HostMount {
                    host_path: device.host_path,
                    container_path: device.container_path,
                    read_only: !device.permissions.contains('w'),
                })
                .collect();
        }
        Ok(())
    }

    /// The API error of a rejected pod, with the smallest change that would fit.
    fn rejection_error(&self, pod: &PodObject, rejected: AdmitError) -> AgentApiError {
        match rejected {
            AdmitError::Rules { reason, decision } => match decision {
                Some(decision) => {
                    let core = Arc::new(pod.pod.clone());
                    let ledger = lock(&self.node).journaled().ledger().clone();
                    let found = remedy::find(&ledger, &core, &mut NoPreference, Effort::default());
                    AgentApiError::rejected(&pod.pod.name, &decision, found.ok().as_ref())
                }
                None => AgentApiError::new(ApiErrorKind::Rejected, reason, ""),
            },
            AdmitError::Journal(error) => api_error(&error),
            error @ AdmitError::UnknownSandbox(_) => {
                AgentApiError::new(ApiErrorKind::Internal, error.to_string(), "")
            }
        }
    }

    /// The name and allowance of a pod's container; its first one if none is named.
    fn allowance(
        &self,
        pod: &PodUid,
        wanted: Option<&ContainerName>,
    ) -> Result<(ContainerName, Allowance), AgentApiError> {
        let mut node = lock(&self.node);
        let resident = node.journaled().ledger().state().admitted_pods().get(pod);
        let Some(resident) = resident else {
            let error = format!("there is no pod {pod}");
            return Err(AgentApiError::new(
                ApiErrorKind::NotFound,
                error,
                NO_SUCH_POD,
            ));
        };
        let of_pod = &resident.pod;
        let found = match wanted {
            Some(name) => of_pod.container(name),
            None => of_pod.containers.first(),
        };
        let Some(name) = found.map(|container| container.name.clone()) else {
            let error = format!("pod {pod} has no such container");
            return Err(AgentApiError::new(
                ApiErrorKind::NotFound,
                error,
                NO_SUCH_POD,
            ));
        };
        match node.allowed(pod, &name) {
            Some(allowance) => Ok((name, allowance)),
            None => Err(AgentApiError::new(
                ApiErrorKind::Conflict,
                format!("pod {pod} is not pinned by the agent"),
                "the kubelet sets its CPUs: it pinned the pod before the takeover, or takeover.cpuSetAllocator is false",
            )),
        }
    }

    fn confine_group(
        &self,
        pod: &PodUid,
        name: &ContainerName,
        allowance: &Allowance,
        path: &Path,
    ) -> Result<String, AgentApiError> {
        let unusable = |error: &dyn std::fmt::Display| {
            let hint = "pass the path of an existing cgroup";
            AgentApiError::new(ApiErrorKind::Unsupported, error.to_string(), hint)
        };
        let Some(writer) = &self.writer else {
            return Err(unusable(
                &"the agent does not write cgroups (cgroups.direct or takeover.cpuSetAllocator)",
            ));
        };
        let group = group_at(writer.hierarchy(), path)
            .filter(|group| !group.is_root())
            .ok_or_else(|| {
                unusable(&format!(
                    "{} is not a cgroup of the cpuset hierarchy",
                    path.display()
                ))
            })?;
        for (process, file) in [
            ("init", "/proc/1/cgroup"),
            ("the agent", "/proc/self/cgroup"),
        ] {
            if std::fs::read_to_string(file).is_ok_and(|groups| is_in(&groups, &group)) {
                let error = format!("{} is not confined: {process} is in it", path.display());
                return Err(unusable(&error));
            }
        }
        let online = {
            let node = lock(&self.node);
            node.journaled().ledger().rules().machine().online().clone()
        };
        let migrate = Some(self.config.cgroups.migrate_memory);
        let confine = |allowance: &Allowance| {
            let written = writer.enforce(&group, allowance, &online, migrate);
            written.map(drop).map_err(|error| unusable(&error))
        };
        confine(allowance)?;
        let shown = format!("/{}", group.as_str());
        let held = lock(&self.node).hold(&shown, pod, name, now());
        let held = held.map_err(|error| api_error(&error))?;
        self.telemetry.node_changed();
        // The allowance may have changed since it was read.
        if let Some(held) = held.filter(|held| held != allowance) {
            confine(&held)?;
        }
        Ok(path.display().to_string())
    }

    fn confine_process(
        &self,
        pod: &PodUid,
        name: &ContainerName,
        allowance: &Allowance,
        pid: u32,
    ) -> Result<String, AgentApiError> {
        let unusable = |error: &dyn std::fmt::Display| {
            let hint = "the process must run, and the agent must be allowed to set its affinity";
            AgentApiError::new(ApiErrorKind::Unsupported, error.to_string(), hint)
        };
        if let Some(reason) = reason_not_to_confine(pid) {
            return Err(unusable(&format!(
                "process {pid} is not confined: {reason}"
            )));
        }
        let process = PinnedProcess::find(pid, name.clone())
            .ok_or_else(|| unusable(&format!("there is no process {pid}")))?;
        let confine = |allowance: &Allowance| {
            confine_process(process.process, &allowance.cpus).map_err(|error| unusable(&error))
        };
        confine(allowance)?;
        let alive = &PinnedProcess::is_alive;
        let held = lock(&self.node).hold_process(&process, pod, alive, now());
        let held = held.map_err(|error| api_error(&error))?;
        self.telemetry.node_changed();
        // The allowance may have changed since it was read.
        if let Some(held) = held.filter(|held| held != allowance) {
            confine(&held)?;
        }
        Ok("affinity".to_owned())
    }
}

/// The cgroup at an absolute path of the file system.
fn group_at(hierarchy: &Hierarchy, path: &Path) -> Option<GroupPath> {
    let root = hierarchy.cpuset.folder(&GroupPath::root()).ok()?;
    let below = path.strip_prefix(&root).ok()?;
    GroupPath::parse(below.to_str()?).ok()
}

/// Whether one of a process's cgroups, as in its file `/proc/PID/cgroup`, is `group` or below it.
fn is_in(groups: &str, group: &GroupPath) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let paths = paths.filter_map(|path| GroupPath::parse(path).ok());
    paths
        .into_iter()
        .any(|path| path == *group || path.ancestors().contains(group))
}

fn api_error(error: &JournaledLedgerError) -> AgentApiError {
    let (kind, hint) = match error {
        JournaledLedgerError::Journal(_) => (
            ApiErrorKind::Unavailable,
            "check the disk of the state directory; nothing was changed",
        ),
        JournaledLedgerError::Ledger(_)
        | JournaledLedgerError::Grant(_)
        | JournaledLedgerError::RulesChange(_) => (ApiErrorKind::Conflict, "nothing was changed"),
    };
    AgentApiError::new(kind, error.to_string(), hint)
}

impl Agent for Service {
    fn status(&self) -> AgentStatus {
        let Health {
            not_live: mut problems,
            not_ready,
        } = self.health();
        problems.extend(not_ready);
        if let Some((writers, _)) = &self.cluster {
            problems.extend(writers.problems());
        }
        let mut node = lock(&self.node);
        let best_effort_cpus = node.best_effort_cpus();
        let journaled = node.journaled();
        let rules = journaled.ledger().rules();
        AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            mode: "manage".to_owned(),
            topology_policy: rules.policy().name().to_owned(),
            topology_scope: rules.scope().name().to_owned(),
            generation: journaled.generation(),
            runtime_connected: self.is_connected(),
            problems,
            takeover: self.takeover(&node),
            drift: self.telemetry.drift(),
            best_effort_cpus,
            occupancy: journaled.ledger().occupancy(),
        }
    }

    fn pods(&self) -> Vec<PodReport> {
        let node = lock(&self.node);
        let mut pods = PodReport::all(node.journaled().ledger());
        for pod in &mut pods {
            pod.opted_out = node.has_opted_out(&pod.uid);
            let containers = pod.containers.iter_mut();
            for devices in containers.flat_map(|container| &mut container.devices) {
                devices.resource = align::requested_resource(&devices.resource);
            }
        }
        let unmet = self.telemetry.unmet_allowances();
        pods.iter_mut().for_each(|pod| unmet.add_to(pod));
        pods
    }

    fn admit(&self, manifest: &[u8]) -> Result<AdmissionResponse, AgentApiError> {
        let bad = |error: String| AgentApiError::new(ApiErrorKind::BadInput, error, "send one Pod");
        let read = pod::read("the pod", manifest).map_err(|found| bad(found.to_string()))?;
        let mut pods = read.value.into_iter();
        let object = match (pods.next(), pods.next()) {
            (Some(one), None) => one,
            (None, _) => return Err(bad("expected a pod, found none".to_owned())),
            (Some(_), Some(_)) => return Err(bad("expected one pod, found several".to_owned())),
        };
        if !crate::http::is_valid_uid(object.pod.uid.as_str()) {
            let expected = "metadata.uid: expected at most 512 letters, digits and -_.:~/";
            return Err(bad(expected.to_owned()));
        }
        let outcome = match &self.devices {
            Some(host) => lock(&self.node).admit(&object, &mut host.preferences(), now()),
            None => lock(&self.node).admit(&object, &mut NoPreference, now()),
        };
        let (decision, updates) =
            outcome.map_err(|rejected| self.rejection_error(&object, rejected))?;
        self.publish_updates(updates);
        let (report, generation) = {
            let node = lock(&self.node);
            let uid = &object.pod.uid;
            let report = PodReport::of(node.journaled().ledger(), uid);
            let report = report.map(|report| PodReport {
                opted_out: node.has_opted_out(uid),
                ..report
            });
            (report, node.journaled().generation())
        };
        let Some(mut report) = report else {
            let error = "the pod was released before the answer was complete";
            return Err(AgentApiError::new(ApiErrorKind::Conflict, error, ""));
        };
        if let Err(error) = self.add_device_edits(&mut report) {
            // The pod cannot start, so its resources are released.
            self.release(&report.uid)?;
            return Err(error);
        }
        let explanation = decision
            .map(|decision| explain::admission(&object.pod.name, &decision, explain::WIDTH));
        let explanation = explanation.unwrap_or_default();
        Ok(AdmissionResponse {
            pod: report,
            generation,
            explanation: explanation.lines().map(str::to_owned).collect(),
        })
    }

    fn release(&self, pod: &PodUid) -> Result<(), AgentApiError> {
        let (released, record) = {
            let mut node = lock(&self.node);
            let record = node.journaled().records().get(pod).cloned();
            (node.release(pod, now()), record.unwrap_or_default())
        };
        let updates = released.map_err(|error| match error {
            JournaledLedgerError::Ledger(error) => {
                AgentApiError::new(ApiErrorKind::NotFound, error.to_string(), NO_SUCH_POD)
            }
            error => api_error(&error),
        })?;
        if let Some(host) = &self.devices
            && let Err(error) = host.remove_pod(pod)
        {
            tracing::warn!(%pod, %error, "device checkpoint update failed");
        }
        for held in record.processes.iter().filter(|held| held.is_alive()) {
            if !held.affinity.is_empty()
                && let Err(error) = confine_process(held.process, &held.affinity)
            {
                tracing::warn!(pid = held.process.pid, %error, "restoring CPU affinity failed");
            }
        }
        let groups = record.cgroups.keys();
        for group in groups.filter_map(|group| GroupPath::parse(group).ok()) {
            let released = self.writer.as_ref().map(|writer| writer.release(&group));
            match released {
                Some(Err(error)) if !error.is_vanished() => {
                    tracing::warn!(cgroup = %group, %error, "releasing the CPUs of a cgroup failed");
                }
                _ => {}
            }
        }
        self.publish_updates(updates);
        Ok(())
    }

    fn pin(&self, pod: &PodUid, target: &PinTarget) -> Result<PinResult, AgentApiError> {
        let (name, allowance) = self.allowance(pod, target.container.as_ref())?;
        let method = match (&target.cgroup, target.pid) {
            (Some(path), _) => self.confine_group(pod, &name, &allowance, path)?,
            (None, Some(pid)) => self.confine_process(pod, &name, &allowance, pid)?,
            (None, None) => {
                let error = "expected either pid or cgroup";
                return Err(AgentApiError::new(ApiErrorKind::BadInput, error, ""));
            }
        };
        Ok(PinResult {
            cpus: allowance.cpus,
            memory_nodes: allowance.mems,
            method,
        })
    }

    fn plan(&self, settings: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        self.compute_plan(settings).map(|(_, report)| report)
    }

    fn apply(&self, settings: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        let (plan, mut report) = self.compute_plan(settings)?;
        self.apply_plan(plan).map_err(|error| api_error(&error))?;
        report.applied = true;
        report.generation = lock(&self.node).journaled().generation();
        Ok(report)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<JournalPage, AgentApiError> {
        let _reading = self
            .journal_read_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let unreadable = |error: JournalError| {
            AgentApiError::new(ApiErrorKind::Unavailable, error.to_string(), "")
        };
        let (reader, last_number) = {
            let node = lock(&self.node);
            let reader = node.journaled().entries_after(after, limit);
            (reader.map_err(unreadable)?, node.journaled().generation())
        };
        Ok(JournalPage {
            entries: reader.read().map_err(unreadable)?,
            last_number,
        })
    }
}

impl ReadinessSource for Service {
    fn readiness(&self) -> Readiness {
        let Health {
            not_live,
            not_ready,
        } = self.health();
        if let (Some(socket), Some(false)) = (&self.config.runtime.nri_socket, self.is_connected())
        {
            self.telemetry.runtime_disconnected(socket);
        }
        if not_live.is_empty() && not_ready.is_empty() {
            return Readiness {
                ready: true,
                reason: "AgentReady",
                message: "the agent admits pods and pins containers".to_owned(),
            };
        }
        let journal = self.journal_problem.lock();
        let is_journal = journal.unwrap_or_else(PoisonError::into_inner).is_some();
        let reason = match self.telemetry.first_topic() {
            _ if self.is_connected() == Some(false) => "RuntimeDisconnected",
            _ if is_journal => "JournalWriteFailed",
            Some(topic) => topic,
            None => "AgentNotReady",
        };
        Readiness {
            ready: false,
            reason,
            message: [not_live, not_ready].concat().join("; "),
        }
    }

    fn is_live(&self) -> bool {
        // A decision takes milliseconds, so that a lock which is never free is a deadlock.
        self.health().not_live.is_empty() && self.node.try_lock().is_ok()
    }
}

impl DaemonStatus for Service {
    fn health(&self) -> Health {
        let mut not_live = self.telemetry.broken();
        let mut not_ready = self.telemetry.problems();
        not_ready.retain(|problem| !not_live.contains(problem));
        if self.is_connected() == Some(false) {
            let state = "the container runtime is not connected: containers start unpinned";
            not_ready.push(state.to_owned());
        }
        let mut journal = self
            .journal_problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A probe does not wait for a decision: while one is made, the last known problem counts.
        if let Ok(node) = self.node.try_lock() {
            let error = node.journaled().write_error();
            let broken = node.journaled().is_broken();
            *journal = error.map(|error| (format!("journal write failed: {error}"), broken));
        }
        match &*journal {
            Some((problem, true)) => not_live.push(problem.clone()),
            Some((problem, false)) => not_ready.push(problem.clone()),
            None => {}
        }
        drop(journal);
        Health {
            not_live,
            not_ready,
        }
    }

    fn update_gauges(&self, metrics: &Metrics) {
        let (ledger, generation, length, syncs, pinned, counters, failed) = {
            let node = lock(&self.node);
            let journaled = node.journaled();
            (
                journaled.ledger().clone(),
                journaled.generation(),
                journaled.journal_length(),
                journaled.journal_syncs(),
                node.kubelet_pinned(),
                node.counters().clone(),
                journaled.write_error().is_some(),
            )
        };
        crate::metrics::measure_ledger(metrics, &ledger);
        let mut totals = self
            .counter_totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        totals.admissions(metrics, &counters);
        totals.journal_syncs(metrics, syncs);
        let asked = self
            .pod_resources
            .as_ref()
            .map(PodResourcesServer::call_counts);
        if let Some(host) = &self.devices {
            totals.device_plugins(metrics, host.activity());
        }
        let asked = asked.or_else(|| self.devices.as_ref().map(|host| host.call_counts()));
        totals.pod_resources(metrics, asked.unwrap_or_default());
        drop(totals);
        let number = |value: u64| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
        metrics.set(&catalogue::GENERATION, &[], number(generation));
        let pinned = u64::try_from(pinned).unwrap_or(u64::MAX);
        metrics.set(&catalogue::KUBELET_PINNED, &[], number(pinned));
        let truth = |value: bool| f64::from(u8::from(value));
        match self.is_connected() {
            Some(connected) => metrics.set(&catalogue::NRI_CONNECTED, &[], truth(connected)),
            None => metrics.clear(&catalogue::NRI_CONNECTED),
        }
        metrics.set(&catalogue::READY, &[], truth(self.readiness().ready));
        metrics.set(&catalogue::JOURNAL_WRITE_FAILED, &[], truth(failed));
        if let Some((_, publisher)) = &self.cluster {
            let stale = publisher.stale_for().as_secs_f64();
            metrics.set(&catalogue::REPORT_STALE, &[], stale);
        }
        metrics.set(&catalogue::JOURNAL_BYTES, &[], number(length));
    }
}

/// Whether the agent writes cgroups.
pub(super) fn writes_cgroups(config: &AgentConfig) -> bool {
    config.cgroups.direct_writes != DirectWrites::Never && config.takeover.cpu_set_allocator
}

#[cfg(test)]
pub(super) mod tests;
