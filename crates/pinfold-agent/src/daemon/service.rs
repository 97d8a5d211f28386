//! [`Service`]: what people and programs can ask of a node that we run.

use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use nri::Handle;
use pinfold_cgroup::{GroupPath, Hierarchy};
use pinfold_core::device::NoPreference;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::remedy::{self, Effort};
use pinfold_devices::pod_resources::PodResources;
use pinfold_devices::{ContainerEdits, Host};
use pinfold_kube::pod::{self, PodObject};
use pinfold_render::explain;
use pinfold_standalone::confine_process;

use super::DaemonError;
use super::measure::Seen;
use super::place::Place;
use super::report::Picture;
use super::witness::Told;
use crate::allowance::Allowance;
use crate::config::{AgentConfig, DirectWrites};
use crate::drift;
use crate::http::{
    AdmittedPod, Agent, AgentApiError, AgentStatus, ApiErrorKind, Health, HostMount, JournalPage,
    PinResult, PinTarget, PodReport, Probed, RulesChangeReport, TakeoverStatus,
};
use crate::journaled_ledger::{JournaledLedgerError, RulesChange};
use crate::metrics::{Metrics, catalogue};
use crate::node::{Node, Rejected, Update};
use crate::runtime::{Witness, lock};
use pinfold_journal::PinnedProcess;
use pinfold_journal::{FILE, JournalError, JournalHistory, Timestamp};

/// A node that we run.
pub(super) struct Service {
    pub(super) node: Arc<Mutex<Node>>,
    pub(super) name: String,
    pub(super) config: AgentConfig,
    pub(super) place: Mutex<Place>,
    pub(super) told: Arc<Told>,
    pub(super) handle: Option<Handle>,
    pub(super) devices: Option<Arc<Host>>,
    pub(super) hierarchy: Option<Hierarchy>,
    pub(super) others: SyncSender<Vec<Update>>,
    /// Pod resources, where no device host tells them.
    pub(super) pod_resources: Option<PodResources>,
    /// The kubelet's CPU policy, as its state file says.
    pub(super) kubelet_policy: Mutex<Option<String>>,
    /// Whoever reads the journal: it is large, and one at a time is enough.
    pub(super) reading: Mutex<()>,
    pub(super) seen: Mutex<Seen>,
}

/// What time it is.
pub(super) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// The process that keeps CPUs back to itself is no container: it cannot be known what it needs.
const NO_SUCH_POD: &str = "GET /v1/pods lists the pods";

impl Service {
    /// Others may use something else from now on, and reports are out of date.
    fn spread(&self, updates: Vec<Update>) {
        self.told.changed();
        if !updates.is_empty() {
            let _ = self.others.try_send(updates);
        }
    }

    /// Writes down who left while that was not possible.
    pub(super) fn settle(&self) {
        let settled = {
            let mut node = lock(&self.node);
            node.journaled_mut().retry_writing();
            node.settle(now())
        };
        match settled {
            Ok(None) => {}
            Ok(Some(updates)) => self.spread(updates),
            Err(error) => self.told.failed(&error),
        }
    }

    /// The node as it is now, for reports.
    pub(super) fn picture(&self) -> Picture {
        let mut node = lock(&self.node);
        Picture {
            pools: node.pools_now(),
            ledger: node.journaled().ledger().clone(),
            notes: node.journaled().records().clone(),
            generation: node.journaled().generation(),
            kubelet_policy: self.kubelet_policy(),
        }
    }

    /// The kubelet's CPU policy, as its state file last said.
    pub(super) fn kubelet_policy(&self) -> Option<String> {
        let policy = self.kubelet_policy.lock();
        policy.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is there to take over from a kubelet, and how far that is.
    fn takeover(&self, node: &Node) -> Option<TakeoverStatus> {
        let kubelet_policy = self.kubelet_policy();
        let pinned = node.pinned_by_kubelet();
        let pins = self.config.takeover.cpu_set_allocator;
        if pins && pinned.is_empty() && kubelet_policy.is_none() {
            return None;
        }
        let phase = match () {
            () if !pins => "kubelet",
            () if pinned.is_empty() && kubelet_policy.as_deref() != Some("static") => "done",
            () => "in-progress",
        };
        Some(TakeoverStatus {
            phase: phase.to_owned(),
            kubelet_policy,
            pinned_pods: pinned,
        })
    }

    /// What other settings would mean.
    fn planned(&self, settings: &[u8]) -> Result<(RulesChange, RulesChangeReport), AgentApiError> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = place
            .settings("the settings", settings)
            .and_then(|settings| place.rules_of(settings, self.config.dialect));
        let rules = rules.map_err(|error| match error {
            DaemonError::Settings(_) => AgentApiError::new(
                ApiErrorKind::Conflict,
                error.to_string(),
                "pinfold check says more about them",
            ),
            error => AgentApiError::new(ApiErrorKind::BadInput, error.to_string(), ""),
        })?;
        let node = lock(&self.node);
        let journaled = node.journaled();
        let plan = journaled.plan_rules_change(&rules);
        let plan = plan.map_err(|error| failure(&error.into()))?;
        let report = plan.report(journaled.ledger());
        Ok((plan, report))
    }

    /// Carries a plan out.
    pub(super) fn amend(&self, plan: RulesChange) -> Result<(), JournaledLedgerError> {
        let updates = lock(&self.node).amend(plan, now())?;
        self.spread(updates);
        Ok(())
    }

    /// What device plugins want in the containers of a pod.
    fn edits(&self, report: &mut PodReport) -> Result<(), AgentApiError> {
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
                    let hint = "nothing is held for the pod; try again when the plugin is well";
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

    /// Why a pod was turned away, with what would fit.
    fn rejection(&self, pod: &PodObject, rejected: Rejected) -> AgentApiError {
        match rejected {
            Rejected::Rules { told, decision } => match decision {
                Some(decision) => {
                    let core = Arc::new(pod.pod.clone());
                    let ledger = lock(&self.node).journaled().ledger().clone();
                    let found = remedy::find(&ledger, &core, &mut NoPreference, Effort::default());
                    AgentApiError::rejected(&pod.pod.name, &decision, found.ok().as_ref())
                }
                None => AgentApiError::new(ApiErrorKind::Rejected, told, ""),
            },
            Rejected::Journal(error) => failure(&error),
            error @ Rejected::UnknownSandbox(_) => {
                AgentApiError::new(ApiErrorKind::Internal, error.to_string(), "")
            }
        }
    }

    /// The place of a container that is to be enforced on something.
    fn allowance(
        &self,
        pod: &PodUid,
        wanted: Option<&ContainerName>,
    ) -> Result<(ContainerName, Allowance), AgentApiError> {
        let mut node = lock(&self.node);
        let resident = node.journaled().ledger().state().residents().get(pod);
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
                format!("pod {pod} is left alone here"),
                "the kubelet sets its CPUs: it pinned the pod before, or takeover.cpuSetAllocator is false",
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
        let not_here = |error: &dyn std::fmt::Display| {
            let hint = "the path must be that of a control group that exists";
            AgentApiError::new(ApiErrorKind::Unsupported, error.to_string(), hint)
        };
        let Some(hierarchy) = &self.hierarchy else {
            return Err(not_here(&"control groups are not written here"));
        };
        let group = group(hierarchy, path)
            .filter(|group| !group.is_root())
            .ok_or_else(|| not_here(&format!("{} is no control group of CPUs", path.display())))?;
        let online = {
            let node = lock(&self.node);
            node.journaled().ledger().rules().machine().online().clone()
        };
        let migrate = Some(self.config.cgroups.migrate_memory);
        let confine = |allowance: &Allowance| {
            drift::enforce(hierarchy, &group, allowance, &online, migrate)
                .map_err(|error| not_here(&error))
        };
        confine(allowance)?;
        let shown = format!("/{}", group.as_str());
        let held = lock(&self.node).hold(&shown, pod, name, now());
        let held = held.map_err(|error| failure(&error))?;
        self.told.changed();
        // Others may have come or gone meanwhile.
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
        let not_here = |error: &dyn std::fmt::Display| {
            let hint = "it must run, and be ours to confine";
            AgentApiError::new(ApiErrorKind::Unsupported, error.to_string(), hint)
        };
        let process = PinnedProcess::find(pid, name.clone())
            .ok_or_else(|| not_here(&format!("there is no process {pid}")))?;
        let confine = |allowance: &Allowance| {
            confine_process(process.process, &allowance.cpus).map_err(|error| not_here(&error))
        };
        confine(allowance)?;
        let alive = &PinnedProcess::is_alive;
        let held = lock(&self.node).hold_process(&process, pod, alive, now());
        let held = held.map_err(|error| failure(&error))?;
        self.told.changed();
        // Others may have come or gone meanwhile.
        if let Some(held) = held.filter(|held| held != allowance) {
            confine(&held)?;
        }
        Ok("affinity".to_owned())
    }
}

/// The group at an absolute path of the file system.
fn group(hierarchy: &Hierarchy, path: &Path) -> Option<GroupPath> {
    let root = hierarchy.cpuset.folder(&GroupPath::root()).ok()?;
    let below = path.strip_prefix(&root).ok()?;
    GroupPath::parse(below.to_str()?).ok()
}

fn failure(error: &JournaledLedgerError) -> AgentApiError {
    let (kind, hint) = match error {
        JournaledLedgerError::Journal(_) => (
            ApiErrorKind::Unavailable,
            "see the disk of the state directory; nothing was changed",
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
            broken: mut problems,
            waiting,
        } = self.health();
        problems.extend(waiting);
        let node = lock(&self.node);
        let journaled = node.journaled();
        let rules = journaled.ledger().rules();
        AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            mode: "manage".to_owned(),
            topology_policy: rules.policy().name().to_owned(),
            topology_scope: rules.scope().name().to_owned(),
            generation: journaled.generation(),
            runtime_connected: self.handle.as_ref().map(|all| all.state().is_connected()),
            problems,
            takeover: self.takeover(&node),
            occupancy: journaled.ledger().occupancy(),
        }
    }

    fn pods(&self) -> Vec<PodReport> {
        PodReport::all(lock(&self.node).journaled().ledger())
    }

    fn admit(&self, manifest: &[u8]) -> Result<AdmittedPod, AgentApiError> {
        let bad = |error: String| AgentApiError::new(ApiErrorKind::BadInput, error, "send one Pod");
        let read = pod::read("the pod", manifest).map_err(|found| bad(found.to_string()))?;
        let mut pods = read.value.into_iter();
        let object = match (pods.next(), pods.next()) {
            (Some(one), None) => one,
            (None, _) => return Err(bad("expected a pod, found none".to_owned())),
            (Some(_), Some(_)) => return Err(bad("expected one pod, found several".to_owned())),
        };
        let outcome = match &self.devices {
            Some(host) => lock(&self.node).admit(&object, &mut host.advice(), now()),
            None => lock(&self.node).admit(&object, &mut NoPreference, now()),
        };
        let (decision, updates) = outcome.map_err(|rejected| self.rejection(&object, rejected))?;
        self.spread(updates);
        let (report, generation) = {
            let node = lock(&self.node);
            let report = PodReport::of(node.journaled().ledger(), &object.pod.uid);
            (report, node.journaled().generation())
        };
        let Some(mut report) = report else {
            let error = "the pod left before this could be told";
            return Err(AgentApiError::new(ApiErrorKind::Conflict, error, ""));
        };
        if let Err(error) = self.edits(&mut report) {
            // A pod that cannot start holds nothing.
            self.release(&report.uid)?;
            return Err(error);
        }
        let told = decision.map(|decision| explain::admission(&object.pod.name, &decision));
        let told = told.unwrap_or_default();
        Ok(AdmittedPod {
            pod: report,
            generation,
            explanation: told.lines().map(str::to_owned).collect(),
        })
    }

    fn release(&self, pod: &PodUid) -> Result<(), AgentApiError> {
        let released = lock(&self.node).release(pod, now());
        let updates = released.map_err(|error| match error {
            JournaledLedgerError::Ledger(error) => {
                AgentApiError::new(ApiErrorKind::NotFound, error.to_string(), NO_SUCH_POD)
            }
            error => failure(&error),
        })?;
        if let Some(host) = &self.devices
            && let Err(error) = host.forget(pod)
        {
            self.told.troubled(&error.to_string());
        }
        self.spread(updates);
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
        self.planned(settings).map(|(_, report)| report)
    }

    fn apply(&self, settings: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        let (plan, mut report) = self.planned(settings)?;
        self.amend(plan).map_err(|error| failure(&error))?;
        report.applied = true;
        report.generation = lock(&self.node).journaled().generation();
        Ok(report)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<JournalPage, AgentApiError> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.config.state_directory.join(FILE);
        let unreadable = |error: JournalError| {
            AgentApiError::new(ApiErrorKind::Unavailable, error.to_string(), "")
        };
        let history = JournalHistory::read(&path).map_err(unreadable)?;
        let last_number = history.last_number();
        let entries = history.entries.into_iter();
        let entries = entries.filter(|entry| entry.number > after).take(limit);
        Ok(JournalPage {
            entries: entries.collect(),
            last_number,
        })
    }
}

impl Probed for Service {
    fn health(&self) -> Health {
        let connected = self.handle.as_ref().map(|all| all.state().is_connected());
        let mut broken = self.told.broken();
        let mut waiting = self.told.problems();
        waiting.retain(|problem| !broken.contains(problem));
        if connected == Some(false) {
            let state = "the container runtime is not connected: containers start unpinned";
            waiting.push(state.to_owned());
        }
        let node = lock(&self.node);
        if let Some(why) = node.journaled().write_error() {
            let which = match node.journaled().is_broken() {
                true => &mut broken,
                false => &mut waiting,
            };
            which.push(format!("nothing can be written down: {why}"));
        }
        drop(node);
        Health { broken, waiting }
    }

    fn measure(&self, metrics: &Metrics) {
        let (ledger, generation, length, pinned, tally) = {
            let node = lock(&self.node);
            let journaled = node.journaled();
            (
                journaled.ledger().clone(),
                journaled.generation(),
                journaled.journal_length(),
                node.kubelet_pinned(),
                node.tally().clone(),
            )
        };
        crate::metrics::measure_ledger(metrics, &ledger);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.tally(metrics, &tally);
        let asked = self.pod_resources.as_ref().map(PodResources::asked);
        if let Some(host) = &self.devices {
            seen.plugins(metrics, host.activity());
        }
        let asked = asked.or_else(|| self.devices.as_ref().map(|host| host.asked()));
        seen.pod_resources(metrics, asked.unwrap_or_default());
        drop(seen);
        let number = |value: u64| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
        metrics.set(&catalogue::GENERATION, &[], number(generation));
        let pinned = u64::try_from(pinned).unwrap_or(u64::MAX);
        metrics.set(&catalogue::KUBELET_PINNED, &[], number(pinned));
        let connected = self.handle.as_ref().map(|all| all.state().is_connected());
        let connected = connected == Some(true);
        metrics.set(
            &catalogue::NRI_CONNECTED,
            &[],
            f64::from(u8::from(connected)),
        );
        metrics.set(&catalogue::JOURNAL_BYTES, &[], number(length));
    }
}

/// Whether control groups are to be written at all.
pub(super) fn writes_groups(config: &AgentConfig) -> bool {
    config.cgroups.direct_writes != DirectWrites::Never && config.takeover.cpu_set_allocator
}
