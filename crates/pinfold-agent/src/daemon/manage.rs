//! Manage mode: we decide, and pin what runs.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nri::{Handle, Identity, Runner};
use pinfold_core::koordinator::plugin::Args;
use pinfold_core::name::PodUid;
use pinfold_devices::pod_resources::{PodResources, Reader};
use pinfold_devices::{Config as DeviceConfig, Host, HostConfig, OfferReceiver};
use pinfold_kube::pod::PodObject;

use super::DaemonError;
use super::cluster;
use super::enforce::{self, Enforcer};
use super::partitions::Partitions;
use super::place::{self, Place};
use super::service::{Service, now, writes_groups};
use super::surfaces::Surfaces;
use super::witness::Told;
use crate::config::{AgentConfig, Dialect, Unknown};
use crate::drift::Evidence;
use crate::journal::Limits;
use crate::keeper::Keeper;
use crate::kubernetes::PodSpecs;
use crate::node::{Koordinator, KubeletPins, Node, Rulebook, Strangers};
use crate::runtime::{Devices, NoSpecifications, Runtime, Specifications, Witness, lock};
use crate::takeover;
use pinfold_daemon::control::{Control, Wish};
use pinfold_daemon::logs::Log;

/// Words for others that wait to be told.
const WAITING: usize = 1024;
/// How long pod resources of a kubelet may take: the runtime waits meanwhile.
const KUBELETS_ANSWER: Duration = Duration::from_millis(400);
/// Changes that come close together are reported together.
const GATHER: Duration = Duration::from_millis(100);

impl Specifications for PodSpecs {
    fn pod(&self, uid: &PodUid, wait: Duration) -> Option<Arc<PodObject>> {
        self.get(uid, wait)
    }
}

pub(super) fn run(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    control: &Control,
    log: &Log,
) -> Result<(), DaemonError> {
    let place = Place::look()?;
    let name = place::name(config);
    let node = open(config, &place, log)?;
    let metrics = Arc::new(crate::metrics::registry());
    let kubernetes = cluster::link(config, &name, log)?;
    let (changed, changes) = sync_channel(1);
    let told = Arc::new(Told::new(
        log.clone(),
        metrics.clone(),
        kubernetes.as_ref().map(|link| link.events().clone()),
        changed,
    ));
    let (others, updates) = sync_channel(WAITING);
    let (devices, offers) = devices(config, &place)?;
    let runner = runner(config)?;
    let handle = runner.as_ref().map(Runner::handle);
    let hierarchy = match writes_groups(config) {
        true => Enforcer::hierarchy(&config.cgroups, &told),
        false => None,
    };
    let service = Arc::new(Service {
        node: node.clone(),
        name: name.clone(),
        config: config.clone(),
        place: Mutex::new(place),
        told: told.clone(),
        handle: handle.clone(),
        devices: devices.clone(),
        hierarchy: hierarchy.clone(),
        others: others.clone(),
    });
    let enforcer = Arc::new(Enforcer {
        node: node.clone(),
        handle: handle.clone(),
        hierarchy,
        config: config.cgroups.clone(),
        partitions: Partitions::new(config.cgroups.partitions),
        told: told.clone(),
    });
    let mut threads = Vec::new();
    let teller = enforcer.clone();
    threads.push(spawn("teller", move || teller.run(&updates))?);
    if let Some(offers) = offers {
        let service = service.clone();
        spawn("offers", move || take_offers(&service, &offers))?;
    }
    let pod_resources = devices.is_none().then(PodResources::default);
    let publisher = kubernetes.as_ref().map(|link| link.publisher().clone());
    let reporter = Reporter {
        service: service.clone(),
        devices: devices.clone(),
        pod_resources: pod_resources.clone(),
        publisher,
    };
    spawn("reporter", move || reporter.run(&changes))?;
    if let Some(runner) = runner {
        let specifications: Box<dyn Specifications> = match &kubernetes {
            Some(link) => Box::new(link.pods().clone()),
            None => Box::new(NoSpecifications),
        };
        let mut runtime = Runtime {
            node,
            specifications,
            devices: match &devices {
                Some(host) => Devices::Ours(host.clone()),
                None if config.pod_resources.kubelet.exists() => Devices::Kubelets(Reader::new(
                    config.pod_resources.kubelet.clone(),
                    KUBELETS_ANSWER,
                )),
                None => Devices::Nobodys,
            },
            witness: told.clone(),
            others,
            clock: now,
        };
        threads.push(spawn("runtime", move || {
            let _ = runner.run(&mut runtime);
        })?);
    } else {
        drop(others);
    }
    let agent: Arc<dyn crate::http::Agent> = service.clone();
    let surfaces = Surfaces::open(config, &agent, &metrics, pod_resources)?;
    let probes = surfaces.probes.map(|at| at.to_string()).unwrap_or_default();
    let about = [
        ("node", &name as &dyn std::fmt::Display),
        ("metrics", &probes),
    ];
    log.info("started", &about);
    told.changed();
    watch(config, reread, control, &service, &enforcer);
    log.info("stopping", &[]);
    drop(surfaces);
    if let Some(handle) = &handle {
        handle.stop();
    }
    // What is decided is on disk, and containers keep what they have.
    Ok(())
}

fn spawn(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, DaemonError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(DaemonError::Thread)
}

/// The node with its journal, run by the rules of now if that is possible without harm.
fn open(config: &AgentConfig, place: &Place, log: &Log) -> Result<Arc<Mutex<Node>>, DaemonError> {
    let rules = place.rules(config)?;
    let mut keeper = Keeper::open(&config.state, rules.clone(), Limits::default())?;
    let then = keeper.ledger().rules();
    if then.machine() != rules.machine() || then.settings() != rules.settings() {
        let applied = keeper
            .plan(&rules)
            .map_err(crate::keeper::KeeperError::from)
            .and_then(|plan| keeper.apply(plan, now()));
        match applied {
            Ok(()) => log.warn("rules-changed", &[("what", &"machine or settings are not those of the journal; everybody was placed by the new ones")]),
            Err(error) => log.error("rules-kept", &[("why", &error)]),
        }
    }
    let rules = keeper.ledger().rules().clone();
    let rulebook = match config.dialect {
        Dialect::Kubelet => Rulebook::Kubelet,
        Dialect::Koordinator => {
            Rulebook::Koordinator(Box::new(Koordinator::new(&rules, Args::default())))
        }
    };
    let strangers = match config.unknown_containers {
        Unknown::Adopt => Strangers::Adopt,
        Unknown::Refuse => Strangers::Share,
    };
    let pins = match config.takeover.disable_query_kubelet_config {
        true => KubeletPins::default(),
        false => pins(config),
    };
    let node = Node::new(keeper, rulebook, strangers, pins);
    let node = match config.takeover.cpu_set_allocator {
        true => node,
        false => node.hands_off(),
    };
    Ok(Arc::new(Mutex::new(node)))
}

/// What the kubelet has pinned, by its own file.
fn pins(config: &AgentConfig) -> KubeletPins {
    let state = config.kubelet.root.join("cpu_manager_state");
    let evidence = Evidence::gather(Path::new("/"), &state);
    let state = evidence.ok().and_then(|evidence| evidence.kubelet);
    KubeletPins {
        pods: state.map(|state| state.containers).unwrap_or_default(),
    }
}

type DeviceHost = (Option<Arc<Host>>, Option<OfferReceiver>);

fn devices(config: &AgentConfig, place: &Place) -> Result<DeviceHost, DaemonError> {
    if !config.devices.manage {
        return Ok((None, None));
    }
    let mut manager = DeviceConfig::new(&config.devices.directory);
    for node in place.machine.nodes() {
        for core in &node.cores {
            let socket = i32::try_from(core.socket).unwrap_or(i32::MAX);
            manager.sockets.entry(socket).or_default().insert(node.id);
        }
    }
    let (host, offers) = Host::start(HostConfig {
        manager,
        checkpoint: config.state.join("devices"),
        pod_resources: config.pod_resources.serve.clone(),
    })?;
    Ok((Some(Arc::new(host)), Some(offers)))
}

fn runner(config: &AgentConfig) -> Result<Option<Runner>, DaemonError> {
    let Some(socket) = &config.runtime.nri else {
        return Ok(None);
    };
    let index = config.runtime.index.parse::<u8>();
    let index = index.map_err(|error| DaemonError::Identity(error.to_string()))?;
    let identity = Identity::new("pinfold", index);
    let identity = identity.map_err(|error| DaemonError::Identity(error.to_string()))?;
    let runner = Runner::from_environment(identity);
    let runner = runner.map_err(|error| DaemonError::Identity(error.to_string()))?;
    Ok(Some(runner.socket(socket)))
}

/// What plugins offer, into the ledger.
fn take_offers(service: &Service, offers: &OfferReceiver) {
    while let Ok((resource, devices)) = offers.recv() {
        let mut node = lock(&service.node);
        let taken = node.keeper_mut().offer(&resource, devices, now());
        drop(node);
        match taken {
            Ok(true) => service.told.changed(),
            Ok(false) => {}
            Err(error) => service.told.failed(&error),
        }
    }
}

/// Tells others about the node whenever it changed.
struct Reporter {
    service: Arc<Service>,
    devices: Option<Arc<Host>>,
    pod_resources: Option<PodResources>,
    publisher: Option<crate::kubernetes::Publisher>,
}

impl Reporter {
    fn run(&self, changes: &Receiver<()>) {
        while changes.recv().is_ok() {
            thread::sleep(GATHER);
            let _ = changes.try_recv();
            let picture = self.service.picture();
            if let Some(host) = &self.devices {
                host.publish(picture.snapshot());
            }
            if let Some(told) = &self.pod_resources {
                told.publish(picture.snapshot());
            }
            if let Some(publisher) = &self.publisher {
                let service = &self.service;
                publisher.publish(picture.report(&service.name, &service.config));
            }
        }
    }
}

/// Looks after everything until it is time to stop.
fn watch(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    control: &Control,
    service: &Service,
    enforcer: &Enforcer,
) {
    let mut watch = enforce::watch(&config.cgroups);
    let mut online = place::online();
    let mut was_connected = None;
    loop {
        match control.next(config.cgroups.check_every) {
            Some(Wish::Stop) => return,
            Some(Wish::Reload) => reload(config, reread, service),
            None => {}
        }
        let seen = place::online();
        if seen != online {
            online = seen;
            look_again(service);
        }
        let connected = service.handle.as_ref().map(Handle::state);
        let connected = connected.map(|state| state.is_connected());
        if connected == Some(false) && was_connected == Some(true) {
            service.told.log.error("runtime-lost", &[(
                "what",
                &"the container runtime is not connected: containers start unpinned until it is",
            )]);
        }
        was_connected = connected;
        service.settle();
        let state = config.kubelet.root.join("cpu_manager_state");
        let kubelet = Evidence::gather(Path::new("/"), &state);
        let kubelet = kubelet.ok().and_then(|evidence| evidence.kubelet);
        let twice = kubelet.as_ref().and_then(|kubelet| {
            let node = lock(&service.node);
            takeover::twice(node.keeper().ledger(), &kubelet.containers)
        });
        service
            .told
            .problem("takeover", twice.map(|twice| twice.to_string()));
        enforcer.round(&mut watch, kubelet);
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
        .keeper()
        .ledger()
        .rules()
        .settings()
        .clone();
    let rules = place.rules_of(settings, service.config.dialect);
    *service.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    adopt_rules(service, rules);
}

/// The settings are read again.
fn reload(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    service: &Service,
) {
    let log = &service.told.log;
    let new = match reread() {
        Ok(new) => new,
        Err(error) => return log.error("not-reloaded", &[("why", &error)]),
    };
    for field in config.needs_restart(&new) {
        log.warn("needs-restart", &[("field", &field)]);
    }
    let rules = {
        let place = service.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.rules(&AgentConfig {
            dialect: config.dialect,
            ..new
        })
    };
    adopt_rules(service, rules);
}

fn adopt_rules(service: &Service, rules: Result<Arc<pinfold_core::ledger::Rules>, DaemonError>) {
    let log = &service.told.log;
    let rules = match rules {
        Ok(rules) => rules,
        Err(error) => return log.error("not-reloaded", &[("why", &error)]),
    };
    let plan = {
        let node = lock(&service.node);
        let now = node.keeper().ledger().rules();
        if now.machine() == rules.machine() && now.settings() == rules.settings() {
            return log.info("reloaded", &[("what", &"nothing changed")]);
        }
        node.keeper().plan(&rules)
    };
    let done = plan
        .map_err(crate::keeper::KeeperError::from)
        .and_then(|plan| service.amend(plan));
    match done {
        Ok(()) => log.info(
            "reloaded",
            &[("what", &"everybody was placed by the new rules")],
        ),
        Err(error) => service.told.problem(
            "rules",
            Some(format!("the old rules stay in force: {error}")),
        ),
    }
}
