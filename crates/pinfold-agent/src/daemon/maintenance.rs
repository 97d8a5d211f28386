//! [`MaintenanceLoop`]: periodic checks of cgroups, online CPUs, the kubelet's state and the agent's threads, and the reload
//! of the configuration.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use pinfold_kube::state::CpuManagerState;

use super::AgentError;
use super::enforcer::{self, Enforcer, UpdateSeqs};
use super::host::{self, LocalMachine};
use super::service::Service;
use super::telemetry::BROKEN_THREAD;
use crate::config::{AgentConfig, UnknownContainerPolicy};
use crate::drift::Evidence;
use crate::node::{KubeletPins, UnknownContainers};
use crate::runtime::lock;
use crate::takeover;
use pinfold_daemon::signals::{Signal, SignalReceiver};
use pinfold_journal::Compaction;

/// Periodic checks, and handling of signals.
pub(super) struct MaintenanceLoop<'a> {
    pub(super) config: &'a AgentConfig,
    pub(super) reread: &'a dyn Fn() -> Result<AgentConfig, String>,
    pub(super) service: &'a Service,
    pub(super) enforcer: &'a Enforcer,
    /// Threads that run as long as the agent does.
    pub(super) threads: &'a [JoinHandle<()>],
}

/// Values of the last check, to log changes.
struct LastPass {
    online: String,
    /// Pods that the kubelet pinned.
    pinned: usize,
}

impl MaintenanceLoop<'_> {
    /// Runs until the agent is stopped.
    pub(super) fn run(&self, control: &SignalReceiver) {
        let mut config = self.config.clone();
        let mut monitor = enforcer::drift_monitor(&config.cgroups);
        let mut last = LastPass {
            online: host::online_cpus(),
            pinned: 0,
        };
        let mut sent = UpdateSeqs::new();
        loop {
            self.check_node(&config, &mut last);
            monitor.migrate_memory(config.cgroups.migrate_memory);
            let kubelet = kubelet_state(&config);
            self.enforcer.repair_drift(&mut monitor, &mut sent, kubelet);
            match control.wait(config.cgroups.check_interval) {
                Some(Signal::Stop) => return,
                Some(Signal::Reload) => {
                    let new = reload(&config, self.reread, self.service, self.enforcer);
                    config = new.unwrap_or(config);
                }
                None => {}
            }
        }
    }

    /// One round of checks.
    fn check_node(&self, config: &AgentConfig, last: &mut LastPass) {
        self.service.release_pending();
        let online = host::online_cpus();
        if online != last.online {
            last.online = online;
            redetect_machine(self.service);
        }
        let telemetry = &self.service.telemetry;
        let ended = self.threads.iter().find(|thread| thread.is_finished());
        if let Some(ended) = ended {
            let name = ended.thread().name().unwrap_or("unnamed");
            let problem = format!("thread {name} has terminated unexpectedly; restart the agent");
            telemetry.problem(BROKEN_THREAD, Some(problem));
        }
        maintain_journal(self.service);
        self.check_takeover(config, last);
    }

    /// Reads the CPUs that the kubelet pinned, and reports the progress of the takeover.
    fn check_takeover(&self, config: &AgentConfig, last: &mut LastPass) {
        let service = self.service;
        let kubelet = kubelet_state(config);
        let policy = kubelet.as_ref().map(|state| state.policy.clone());
        *service
            .kubelet_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = policy;
        let (conflict, pinned) = {
            let mut node = lock(&service.node);
            node.set_kubelet_pins(kubelet_pins(config, kubelet.as_ref()));
            let ledger = node.journaled().ledger();
            let conflict =
                kubelet.and_then(|state| takeover::find_cpu_conflict(ledger, &state.containers));
            (conflict, node.kubelet_pinned())
        };
        let problem = conflict.map(|conflict| conflict.to_string());
        service.telemetry.problem("KubeletConflict", problem);
        if pinned != last.pinned {
            match pinned {
                0 => tracing::info!(
                    "takeover complete: the last pod that the kubelet pinned terminated"
                ),
                pods => tracing::info!(
                    pods,
                    "takeover in progress: pods that the kubelet pinned still run"
                ),
            }
            last.pinned = pinned;
        }
    }
}

/// Compacts the journal and preallocates space for it, without holding up decisions meanwhile.
fn maintain_journal(service: &Service) {
    let compaction = lock(&service.node).journaled().begin_compaction();
    if let Some(compaction) = compaction {
        let written = compaction.and_then(Compaction::write);
        lock(&service.node)
            .journaled_mut()
            .finish_compaction(written);
    }
    let (compaction_error, space) = {
        let node = lock(&service.node);
        let journaled = node.journaled();
        let error = journaled.compaction_error().map(ToString::to_string);
        (error, journaled.space_maker())
    };
    service
        .telemetry
        .problem("JournalCompactionFailed", compaction_error);
    if let Ok(Some(space)) = space {
        space.preallocate();
    }
}

/// The kubelet's `cpu_manager_state`; `None` if the file is missing or unreadable.
pub(super) fn kubelet_state(config: &AgentConfig) -> Option<CpuManagerState> {
    let state = config.kubelet.root_directory.join("cpu_manager_state");
    let evidence = Evidence::gather(Path::new("/"), &state);
    evidence.ok().and_then(|evidence| evidence.kubelet)
}

/// The CPUs that the kubelet pinned; none if the configuration says not to read its state.
pub(super) fn kubelet_pins(config: &AgentConfig, kubelet: Option<&CpuManagerState>) -> KubeletPins {
    let enabled = !config.takeover.disable_query_kubelet_config;
    let pods = kubelet
        .filter(|_| enabled)
        .map(|state| state.containers.clone());
    KubeletPins {
        pods: pods.unwrap_or_default(),
    }
}

/// How running containers are handled that are not in the journal.
pub(super) fn unknown_containers(config: &AgentConfig) -> UnknownContainers {
    match config.unknown_containers {
        UnknownContainerPolicy::Adopt => UnknownContainers::Adopt,
        UnknownContainerPolicy::Reject => UnknownContainers::UseSharedPool,
    }
}

/// Reads the machine again after its online CPUs changed, and replaces the ledger's rules.
fn redetect_machine(service: &Service) {
    let machine = match LocalMachine::detect() {
        Ok(machine) => machine,
        Err(error) => {
            tracing::error!(%error, "reading the machine's topology failed");
            return;
        }
    };
    let settings = lock(&service.node)
        .journaled()
        .ledger()
        .rules()
        .settings()
        .clone();
    let rules = machine.rules_of(settings, service.config.dialect);
    *service
        .machine
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = machine;
    apply_rules(service, rules);
}

/// Reloads the configuration. Returns the new one, or `None` if it is unreadable.
fn reload(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    service: &Service,
    enforcer: &Enforcer,
) -> Option<AgentConfig> {
    let new = match reread() {
        Ok(new) => new,
        Err(error) => {
            tracing::error!(%error, "configuration reload failed");
            return None;
        }
    };
    for field in config.needs_restart(&new) {
        tracing::warn!(%field, "changed setting needs a restart");
    }
    enforcer.reconfigure(new.cgroups.clone());
    lock(&service.node).set_unknown_containers(unknown_containers(&new));
    let now = AgentConfig {
        cgroups: new.cgroups.clone(),
        unknown_containers: new.unknown_containers,
        ..config.clone()
    };
    let rules = {
        let machine = service
            .machine
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        machine.rules(&AgentConfig {
            dialect: config.dialect,
            ..new
        })
    };
    apply_rules(service, rules);
    Some(now)
}

/// Changes the ledger's rules, moving pods where the new rules require it. If they do not fit, the old rules stay in force.
fn apply_rules(service: &Service, rules: Result<Arc<pinfold_core::ledger::Rules>, AgentError>) {
    let rules = match rules {
        Ok(rules) => rules,
        Err(error) => {
            tracing::error!(%error, "new rules are invalid: the old rules stay in force");
            return;
        }
    };
    let plan = {
        let node = lock(&service.node);
        let now = node.journaled().ledger().rules();
        if now.machine() == rules.machine() && now.settings() == rules.settings() {
            tracing::info!("rules unchanged");
            return;
        }
        node.journaled().plan_rules_change(&rules)
    };
    let done = plan
        .map_err(crate::journaled_ledger::JournaledLedgerError::from)
        .and_then(|plan| service.apply_plan(plan));
    match done {
        Ok(()) => {
            service.telemetry.problem("RulesNotApplied", None);
            tracing::info!("rules changed: pods were placed by the new rules");
        }
        Err(error) => service.telemetry.problem(
            "RulesNotApplied",
            Some(format!("the old rules stay in force: {error}")),
        ),
    }
}
