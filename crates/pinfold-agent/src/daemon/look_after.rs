//! [`LookAfter`]: what is looked at again and again while the agent runs: control groups, CPUs that came or went, the
//! kubelet's state, the agent's own threads; and other settings when they are wished for.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use nri::Handle;
use pinfold_kube::state::CpuManagerState;

use super::DaemonError;
use super::enforce::{self, Enforcer, Tellings};
use super::place::{self, Place};
use super::service::Service;
use super::witness::BROKEN_THREAD;
use crate::config::{AgentConfig, UnknownContainerPolicy};
use crate::drift::Evidence;
use crate::node::{KubeletPins, Strangers};
use crate::runtime::lock;
use crate::takeover;
use pinfold_daemon::control::{Control, Wish};

/// Everything that is looked after.
pub(super) struct LookAfter<'a> {
    pub(super) config: &'a AgentConfig,
    pub(super) reread: &'a dyn Fn() -> Result<AgentConfig, String>,
    pub(super) service: &'a Service,
    pub(super) enforcer: &'a Enforcer,
    /// Threads that run as long as the agent does.
    pub(super) threads: &'a [JoinHandle<()>],
}

/// What was so when it was last looked at.
struct Before {
    online: String,
    connected: Option<bool>,
    /// Pods that the kubelet pinned.
    pinned: usize,
}

impl LookAfter<'_> {
    /// Looks after everything until it is time to stop.
    pub(super) fn run(&self, control: &Control) {
        let mut config = self.config.clone();
        let mut watch = enforce::watch(&config.cgroups);
        let mut before = Before {
            online: place::online(),
            connected: None,
            pinned: 0,
        };
        let mut tellings = Tellings::new();
        loop {
            self.look(&config, &mut before);
            watch.migrate_memory(config.cgroups.migrate_memory);
            let kubelet = kubelet(&config);
            self.enforcer.round(&mut watch, &mut tellings, kubelet);
            match control.next(config.cgroups.check_interval) {
                Some(Wish::Stop) => return,
                Some(Wish::Reload) => {
                    let new = reload(&config, self.reread, self.service, self.enforcer);
                    config = new.unwrap_or(config);
                }
                None => {}
            }
        }
    }

    fn look(&self, config: &AgentConfig, before: &mut Before) {
        self.service.settle();
        let seen = place::online();
        if seen != before.online {
            before.online = seen;
            look_again(self.service);
        }
        let told = &self.service.told;
        let connected = self.service.handle.as_ref().map(Handle::state);
        let connected = connected.map(|state| state.is_connected());
        if connected == Some(false) && before.connected == Some(true) {
            let what =
                "the container runtime is not connected: containers start unpinned until it is";
            told.log.error("runtime-lost", &[("what", &what)]);
        }
        before.connected = connected;
        let ended = self.threads.iter().find(|thread| thread.is_finished());
        if let Some(ended) = ended {
            let name = ended.thread().name().unwrap_or("without a name");
            let problem = format!("thread {name} has ended, which is a defect; restart the agent");
            told.problem(BROKEN_THREAD, Some(problem));
        }
        let unshortened = {
            let node = lock(&self.service.node);
            node.journaled().compaction_error().map(ToString::to_string)
        };
        told.problem("journal-length", unshortened);
        self.take_over(config, before);
    }

    /// What the kubelet has pinned by now, and how far the takeover is.
    fn take_over(&self, config: &AgentConfig, before: &mut Before) {
        let service = self.service;
        let kubelet = kubelet(config);
        let policy = kubelet.as_ref().map(|state| state.policy.clone());
        *service
            .kubelet_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = policy;
        let (twice, pinned) = {
            let mut node = lock(&service.node);
            node.learn_pins(pins(config, kubelet.as_ref()));
            let ledger = node.journaled().ledger();
            let twice = kubelet.and_then(|state| takeover::twice(ledger, &state.containers));
            (twice, node.kubelet_pinned())
        };
        let problem = twice.map(|twice| twice.to_string());
        service.told.problem("takeover", problem);
        if pinned != before.pinned {
            let what = match pinned {
                0 => "the last pod that the kubelet pinned has ended: all CPUs are ours".to_owned(),
                left => format!("pods that the kubelet pinned still run: {left}"),
            };
            service.told.log.info("takeover", &[("what", &what)]);
            before.pinned = pinned;
        }
    }
}

/// What the kubelet's CPU manager believes; `None` if it does not say.
pub(super) fn kubelet(config: &AgentConfig) -> Option<CpuManagerState> {
    let state = config.kubelet.root_directory.join("cpu_manager_state");
    let evidence = Evidence::gather(Path::new("/"), &state);
    evidence.ok().and_then(|evidence| evidence.kubelet)
}

/// What the kubelet has pinned, unless it is not to be asked.
pub(super) fn pins(config: &AgentConfig, kubelet: Option<&CpuManagerState>) -> KubeletPins {
    let asked = !config.takeover.disable_query_kubelet_config;
    let pods = kubelet
        .filter(|_| asked)
        .map(|state| state.containers.clone());
    KubeletPins {
        pods: pods.unwrap_or_default(),
    }
}

/// How running containers are treated that nobody knows.
pub(super) fn strangers(config: &AgentConfig) -> Strangers {
    match config.unknown_containers {
        UnknownContainerPolicy::Adopt => Strangers::Adopt,
        UnknownContainerPolicy::Reject => Strangers::Share,
    }
}

/// CPUs came or went: everybody is placed on what there is now.
fn look_again(service: &Service) {
    let log = &service.told.log;
    let place = match Place::look() {
        Ok(place) => place,
        Err(error) => return log.error("machine", &[("why", &error)]),
    };
    let settings = lock(&service.node)
        .journaled()
        .ledger()
        .rules()
        .settings()
        .clone();
    let rules = place.rules_of(settings, service.config.dialect);
    *service.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    adopt_rules(service, rules);
}

/// The settings are read again. What is in force from now on, if anything else is.
fn reload(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    service: &Service,
    enforcer: &Enforcer,
) -> Option<AgentConfig> {
    let log = &service.told.log;
    let new = match reread() {
        Ok(new) => new,
        Err(error) => {
            log.error("not-reloaded", &[("why", &error)]);
            return None;
        }
    };
    for field in config.needs_restart(&new) {
        log.warn("needs-restart", &[("field", &field)]);
    }
    enforcer.reconfigure(new.cgroups.clone());
    lock(&service.node).treat_strangers(strangers(&new));
    let now = AgentConfig {
        cgroups: new.cgroups.clone(),
        unknown_containers: new.unknown_containers,
        ..config.clone()
    };
    let rules = {
        let place = service.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.rules(&AgentConfig {
            dialect: config.dialect,
            ..new
        })
    };
    adopt_rules(service, rules);
    Some(now)
}

fn adopt_rules(service: &Service, rules: Result<Arc<pinfold_core::ledger::Rules>, DaemonError>) {
    let log = &service.told.log;
    let rules = match rules {
        Ok(rules) => rules,
        Err(error) => return log.error("not-reloaded", &[("why", &error)]),
    };
    let plan = {
        let node = lock(&service.node);
        let now = node.journaled().ledger().rules();
        if now.machine() == rules.machine() && now.settings() == rules.settings() {
            return log.info("reloaded", &[("what", &"nothing changed")]);
        }
        node.journaled().plan_rules_change(&rules)
    };
    let done = plan
        .map_err(crate::journaled_ledger::JournaledLedgerError::from)
        .and_then(|plan| service.amend(plan));
    match done {
        Ok(()) => {
            service.told.problem("rules", None);
            let what = "everybody was placed by the new rules";
            log.info("reloaded", &[("what", &what)]);
        }
        Err(error) => service.told.problem(
            "rules",
            Some(format!("the old rules stay in force: {error}")),
        ),
    }
}
