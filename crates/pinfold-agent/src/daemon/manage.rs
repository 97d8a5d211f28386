//! Manage mode: we decide, and pin what runs.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nri::{Identity, Runner};
use pinfold_core::koordinator::plugin::KoordinatorArgs;
use pinfold_core::name::PodUid;
use pinfold_devices::pod_resources::{PodResources, Reader};
use pinfold_devices::{Config as DeviceConfig, Host, HostConfig, OfferReceiver};
use pinfold_kube::koordinator::scheduler_args as scheduler_args_of;
use pinfold_kube::manifest;
use pinfold_kube::pod::PodObject;

use super::DaemonError;
use super::cluster;
use super::enforce::Enforcer;
use super::look_after::{self, LookAfter};
use super::partitions::Partitions;
use super::place::{self, Place};
use super::scan::Scanner;
use super::service::{Service, now, writes_groups};
use super::surfaces::{self, Surfaces};
use super::witness::Told;
use crate::config::{AgentConfig, NodeDialect};
use crate::journaled_ledger::{JournalDifference, JournaledLedger};
use crate::kubernetes::PodCache;
use crate::node::{Koordinator, Node, Rulebook};
use crate::runtime::{Devices, NoSpecifications, Ours, Runtime, Specifications, Witness, lock};
use pinfold_daemon::control::Control;
use pinfold_daemon::logs::Log;
use pinfold_journal::JournalLimits;

/// Words for others that wait to be told.
const WAITING: usize = 1024;
/// How long pod resources of a kubelet may take: the runtime waits meanwhile.
const KUBELETS_ANSWER: Duration = Duration::from_millis(400);
/// Changes that come close together are reported together.
const GATHER: Duration = Duration::from_millis(100);

impl Specifications for PodCache {
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
    favour(config.runtime.niceness, log);
    let place = Place::look()?;
    let name = place::name(config);
    let node = open(config, &place, log)?;
    let metrics = surfaces::metrics();
    let kubernetes = cluster::link(config, &name, log, &metrics)?;
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
    let pod_resources = devices.is_none().then(PodResources::default);
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
        pod_resources: pod_resources.clone(),
        kubelet_policy: Mutex::default(),
        reading: Mutex::default(),
        seen: Mutex::default(),
    });
    let enforcer = Arc::new(Enforcer {
        node: node.clone(),
        handle: handle.clone(),
        hierarchy,
        config: Mutex::new(config.cgroups.clone()),
        partitions: Partitions::new(config.cgroups.partitions),
        told: told.clone(),
        writing: Mutex::default(),
    });
    let mut threads = Vec::new();
    let teller = enforcer.clone();
    threads.push(spawn("teller", move || teller.run(&updates))?);
    if let Some(offers) = offers {
        let service = service.clone();
        threads.push(spawn("offers", move || take_offers(&service, &offers))?);
    }
    let publisher = kubernetes.as_ref().map(|link| link.publisher().clone());
    let reporter = Reporter {
        service: service.clone(),
        devices: devices.clone(),
        pod_resources: pod_resources.clone(),
        publisher,
    };
    threads.push(spawn("reporter", move || reporter.run(&changes))?);
    if let Some(runner) = runner {
        let specifications: Box<dyn Specifications> = match &kubernetes {
            Some(link) => Box::new(link.pods().clone()),
            None => Box::new(NoSpecifications),
        };
        let mut runtime = Runtime {
            node,
            specifications,
            devices: match &devices {
                Some(host) => Devices::Ours(Ours::new(host.clone())),
                // The kubelet may come later than we do, or never.
                None => Devices::Kubelets(Reader::new(
                    config.pod_resources.kubelet_socket.clone(),
                    KUBELETS_ANSWER,
                )),
            },
            pins: config.takeover.cpu_set_allocator,
            witness: told.clone(),
            others,
            clock: now,
        };
        threads.push(spawn("runtime", move || {
            let _ = runner.run(&mut runtime);
        })?);
    } else {
        if let (Some(link), Some(hierarchy)) = (&kubernetes, &service.hierarchy) {
            let scanner = Scanner {
                node,
                pods: link.pods().clone(),
                hierarchy: hierarchy.clone(),
                reader: Reader::new(config.pod_resources.kubelet_socket.clone(), KUBELETS_ANSWER),
                told: told.clone(),
                others: others.clone(),
            };
            threads.push(spawn("scanner", move || scanner.run())?);
        }
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
    let look_after = LookAfter {
        config,
        reread,
        service: &service,
        enforcer: &enforcer,
        threads: &threads,
    };
    look_after.run(control);
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
    let mut journaled = JournaledLedger::open(
        &config.state_directory,
        rules.clone(),
        JournalLimits::default(),
    )?;
    if journaled.truncated_bytes() > 0 {
        let what = JournalDifference::TailLost {
            bytes: journaled.truncated_bytes(),
        };
        log.warn("differs", &[("what", &what)]);
    }
    let then = journaled.ledger().rules();
    if then.machine() != rules.machine() || then.settings() != rules.settings() {
        let applied = journaled
            .plan_rules_change(&rules)
            .map_err(crate::journaled_ledger::JournaledLedgerError::from)
            .and_then(|plan| journaled.apply_rules_change(plan, now()));
        match applied {
            Ok(()) => log.warn("rules-changed", &[("what", &"machine or settings are not those of the journal; everybody was placed by the new ones")]),
            Err(error) => log.error("rules-kept", &[("why", &error)]),
        }
    }
    let rules = journaled.ledger().rules().clone();
    let rulebook = match config.dialect {
        NodeDialect::Kubelet => Rulebook::Kubelet,
        NodeDialect::Koordinator => {
            let args = scheduler_args(config, log)?;
            Rulebook::Koordinator(Box::new(Koordinator::new(&rules, args)))
        }
    };
    let strangers = look_after::strangers(config);
    let pins = look_after::pins(config, look_after::kubelet(config).as_ref());
    let node = Node::new(journaled, rulebook, strangers, pins);
    let node = match config.takeover.cpu_set_allocator {
        true => node,
        false => node.hands_off(),
    };
    Ok(Arc::new(Mutex::new(node)))
}

/// What Koordinator's scheduler is configured with, for what this node decides alone.
fn scheduler_args(config: &AgentConfig, log: &Log) -> Result<KoordinatorArgs, DaemonError> {
    let Some(path) = &config.koordinator.scheduler_config_file else {
        return Ok(KoordinatorArgs::default());
    };
    let bytes = place::read_file(path)?;
    let file = path.to_string_lossy();
    let documents = manifest::read(&file, &bytes).map_err(DaemonError::Rules)?;
    let Some(document) = documents.first() else {
        return Ok(KoordinatorArgs::default());
    };
    let read = scheduler_args_of(document).map_err(DaemonError::Rules)?;
    for warning in &read.warnings {
        log.warn("scheduler", &[("what", warning)]);
    }
    Ok(read.value)
}

type DeviceHost = (Option<Arc<Host>>, Option<OfferReceiver>);

fn devices(config: &AgentConfig, place: &Place) -> Result<DeviceHost, DaemonError> {
    if !config.devices.manage_plugins {
        return Ok((None, None));
    }
    let mut manager = DeviceConfig::new(&config.devices.plugin_directory);
    for node in place.machine.nodes() {
        for core in &node.cores {
            let socket = i32::try_from(core.socket).unwrap_or(i32::MAX);
            manager.sockets.entry(socket).or_default().insert(node.id);
        }
    }
    let (host, offers) = Host::start(HostConfig {
        manager,
        checkpoint: config.state_directory.join("devices"),
        pod_resources: config.pod_resources.socket.clone(),
    })?;
    Ok((Some(Arc::new(host)), Some(offers)))
}

/// Has the kernel favour this thread, and all that it starts: the runtime waits for the agent, and beside many containers
/// that start at once it would wait for its turn after every sync of the journal.
fn favour(niceness: i8, log: &Log) {
    let favoured = rustix::process::setpriority_process(None, niceness.into());
    if let Err(error) = favoured {
        let niceness = niceness.to_string();
        log.info("not-favoured", &[("niceness", &niceness), ("why", &error)]);
    }
}

fn runner(config: &AgentConfig) -> Result<Option<Runner>, DaemonError> {
    let Some(socket) = &config.runtime.nri_socket else {
        return Ok(None);
    };
    let index = config.runtime.plugin_index.parse::<u8>();
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
        let taken = node.journaled_mut().set_devices(&resource, devices, now());
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use pinfold_core::koordinator::policy_values::BindPolicy;

    use super::*;
    use pinfold_daemon::logs::{Level, LogFormat};

    #[test]
    fn a_schedulers_defaults_are_read_for_what_the_node_decides_alone() {
        let sink = Box::new(std::io::sink());
        let log = Log::to(sink, LogFormat::Text, Level::Error, SystemTime::now);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("scheduler.yaml");
        let mut config = AgentConfig::default();
        let default = scheduler_args(&config, &log).expect("defaults");
        assert_eq!(default.default_bind, Some(BindPolicy::FullPcpus));
        config.koordinator.scheduler_config_file = Some(file.clone());
        assert!(scheduler_args(&config, &log).is_err(), "it is not there");
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
            - pluginConfig:\n  - name: NodeNUMAResource\n    args: {defaultCPUBindPolicy: SpreadByPCPUs}\n";
        std::fs::write(&file, text).expect("written");
        let args = scheduler_args(&config, &log).expect("a configuration");
        assert_eq!(args.default_bind, Some(BindPolicy::SpreadByPcpus));
        std::fs::write(&file, "kind: Pod").expect("written");
        assert!(
            scheduler_args(&config, &log).is_err(),
            "it is no configuration"
        );
    }
}
