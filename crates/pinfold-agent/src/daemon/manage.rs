//! Mode `manage`: the agent admits pods and pins containers.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nri::{Identity, Runner};
use pinfold_cgroup::Hierarchy;
use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_devices::pod_resources::{PodResourcesClient, PodResourcesServer};
use pinfold_devices::{DeviceHost, HostConfig, OfferReceiver, PluginManagerConfig};
use pinfold_kube::koordinator::scheduler_args as scheduler_args_of;
use pinfold_kube::manifest;
use pinfold_kube::pod::{PodIdentity, PodObject};

use super::AgentError;
use super::api_server;
use super::cgroup_scanner::CgroupScanner;
use super::enforcer::Enforcer;
use super::host::{self, LocalMachine};
use super::listeners::{self, Listeners};
use super::maintenance::{self, MaintenanceLoop};
use super::own_node::OwnNode;
use super::partitions::PartitionManager;
use super::readiness::ReadinessReporter;
use super::service::{Service, now, writes_cgroups};
use super::suppressor::Suppressor;
use super::telemetry::{NodeEvents, NodeTelemetry};
use crate::config::{Access, AgentConfig, NodeDialect};
use crate::journaled_ledger::JournaledLedger;
use crate::kubernetes::{NodeCache, PodCache};
use crate::node::{self, Koordinator, ManagedNode, PodWarning, Rulebook};
use crate::runtime::{
    AgentDevices, DeviceSource, NoPodSpecs, NriPlugin, PodSpecSource, Telemetry, lock,
};
use pinfold_daemon::signals::SignalReceiver;
use pinfold_journal::JournalLimits;

/// Capacity of the queue of container updates.
const UPDATE_QUEUE: usize = 1024;
/// Timeout of the kubelet's podresources API: the runtime waits for the agent meanwhile.
const POD_RESOURCES_TIMEOUT: Duration = Duration::from_millis(400);
/// Delay after a change, so that several changes are published together.
const REPORT_DELAY: Duration = Duration::from_millis(100);

impl PodSpecSource for PodCache {
    fn pod(&self, pod: &PodIdentity, wait: Duration) -> Option<Arc<PodObject>> {
        self.get(pod, wait)
    }

    fn wait_for_list(&self, wait: Duration) -> bool {
        PodCache::wait_for_list(self, wait)
    }
}

pub(super) fn run(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    control: &SignalReceiver,
) -> Result<(), AgentError> {
    set_niceness(config.runtime.niceness);
    let machine = LocalMachine::detect()?;
    let name = host::node_name(config);
    let metrics = listeners::metrics();
    let kubernetes = api_server::connect(config, &name, &metrics)?;
    let (mut node, moves) = open(config, &machine)?;
    if let Some(link) = &kubernetes {
        node = node.with_pod_status(Arc::new(link.pods().clone()));
    }
    let watched_node = kubernetes.as_ref().map(|link| link.node().clone());
    let own_node = OwnNode::at_start(config, &name, watched_node.as_ref());
    // Containers are compared with their new allowances when the runtime connects.
    drop(node.set_node_settings(&own_node.node.settings));
    let node = Arc::new(Mutex::new(node));
    let (changed, changes) = sync_channel(1);
    let telemetry = Arc::new(NodeTelemetry::new(
        metrics.clone(),
        kubernetes.as_ref().map(|link| NodeEvents {
            queue: link.events().clone(),
            node: name.clone(),
        }),
        changed,
    ));
    telemetry.record_moves(moves);
    let (updates_sender, updates) = sync_channel(UPDATE_QUEUE);
    let (devices, offers) = devices(config, &machine)?;
    let runner = runner(config)?;
    let handle = runner.as_ref().map(Runner::handle);
    let writer = match writes_cgroups(config) {
        true => Enforcer::writer(&config.cgroups, &telemetry),
        false => None,
    };
    let pod_resources = devices.is_none().then(PodResourcesServer::default);
    let service = Arc::new(Service {
        node: node.clone(),
        name: name.clone(),
        config: config.clone(),
        machine: Mutex::new(machine),
        telemetry: telemetry.clone(),
        handle: handle.clone(),
        devices: devices.clone(),
        writer: writer.clone(),
        updates: updates_sender.clone(),
        pod_resources: pod_resources.clone(),
        kubelet_policy: Mutex::default(),
        own_node: Mutex::new(own_node),
        cluster: kubernetes
            .as_ref()
            .map(|link| (link.other_writers().clone(), link.publisher().clone())),
        journal_read_lock: Mutex::default(),
        counter_totals: Mutex::default(),
        journal_problem: Mutex::default(),
    });
    let enforcer = Arc::new(Enforcer {
        node: node.clone(),
        handle: handle.clone(),
        writer,
        config: Mutex::new(config.cgroups.clone()),
        partitions: PartitionManager::new(config.cgroups.partitions),
        telemetry: telemetry.clone(),
        writing: Mutex::default(),
    });
    let mut threads = Vec::new();
    let sender = enforcer.clone();
    threads.push(spawn("update-sender", move || sender.run(&updates))?);
    if let Some(offers) = offers {
        let service = service.clone();
        threads.push(spawn("offers", move || {
            record_device_offers(&service, &offers);
        })?);
    }
    if let Some(watched_node) = watched_node {
        let service = service.clone();
        threads.push(spawn("node", move || follow(&service, &watched_node))?);
    }
    if let Some(suppressor) = suppressor(&service) {
        threads.push(spawn("suppressor", move || suppressor.run())?);
    }
    let publisher = kubernetes.as_ref().map(|link| link.publisher().clone());
    let reporter = NodeReporter {
        service: service.clone(),
        devices: devices.clone(),
        pod_resources: pod_resources.clone(),
        publisher,
    };
    threads.push(spawn("reporter", move || reporter.run(&changes))?);
    if let Some(runner) = runner {
        let pod_specs: Box<dyn PodSpecSource> = match &kubernetes {
            Some(link) => Box::new(link.pods().clone()),
            None => Box::new(NoPodSpecs),
        };
        let mut runtime = NriPlugin {
            node,
            pod_specs,
            devices: match &devices {
                Some(host) => DeviceSource::Agent(AgentDevices::new(host.clone())),
                // The kubelet may start later than the agent, or not at all.
                None => DeviceSource::Kubelet(PodResourcesClient::new(
                    config.pod_resources.kubelet_socket.clone(),
                    POD_RESOURCES_TIMEOUT,
                )),
            },
            pins: config.takeover.cpu_set_allocator,
            telemetry: telemetry.clone(),
            updates: updates_sender,
            clock: now,
            runtime_sends_pids: false,
        };
        threads.push(spawn("runtime", move || {
            let _ = runner.run(&mut runtime);
        })?);
    } else {
        if let (Some(link), Some(writer)) = (&kubernetes, &service.writer) {
            let scanner = CgroupScanner {
                node,
                pods: link.pods().clone(),
                hierarchy: writer.hierarchy().clone(),
                reader: PodResourcesClient::new(
                    config.pod_resources.kubelet_socket.clone(),
                    POD_RESOURCES_TIMEOUT,
                ),
                telemetry: telemetry.clone(),
                updates: updates_sender.clone(),
            };
            threads.push(spawn("scanner", move || scanner.run())?);
        }
        drop(updates_sender);
    }
    let agent: Arc<dyn crate::http::Agent> = service.clone();
    let listeners = Listeners::open(config, &agent, &metrics, pod_resources)?;
    let probes = listeners
        .probes
        .map(|at| at.to_string())
        .unwrap_or_default();
    tracing::info!(node = %name, mode = "manage", metrics = %probes, "agent started");
    telemetry.node_changed();
    let node_status = kubernetes.as_ref().and_then(|link| link.node_status());
    let reporter = ReadinessReporter::start(service.clone(), node_status.cloned())?;
    let maintenance = MaintenanceLoop {
        config,
        reread,
        service: &service,
        enforcer: &enforcer,
        threads: &threads,
    };
    maintenance.run(control);
    tracing::info!("agent stopping");
    drop(reporter);
    drop(listeners);
    if let Some(handle) = &handle {
        handle.stop();
    }
    // All decisions are journaled, and containers keep their CPUs.
    Ok(())
}

fn spawn(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, AgentError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(AgentError::Thread)
}

/// Opens the journal, and applies the current rules if they differ from the journal's and all pods fit. Returns also the
/// pods that were moved.
fn open(
    config: &AgentConfig,
    machine: &LocalMachine,
) -> Result<(ManagedNode, Vec<PodWarning>), AgentError> {
    let rules = machine.rules(config)?;
    let mut journaled = JournaledLedger::open(
        &config.state_directory,
        rules.clone(),
        JournalLimits::default(),
    )?;
    journaled.defer_compaction();
    if journaled.truncated_bytes() > 0 {
        let bytes = journaled.truncated_bytes();
        tracing::warn!(bytes, "incomplete last journal entry removed");
    }
    let mut moves = Vec::new();
    let then = journaled.ledger().rules();
    if then.machine() != rules.machine() || then.settings() != rules.settings() {
        let applied = journaled
            .plan_rules_change(&rules)
            .map_err(crate::journaled_ledger::JournaledLedgerError::from)
            .and_then(|plan| {
                let moves = node::moves(&plan, journaled.ledger());
                journaled.apply_rules_change(plan, now()).map(|()| moves)
            });
        match applied {
            Ok(moved) => {
                tracing::warn!(
                    "machine or settings changed since the last run: pods were placed by the new rules"
                );
                moves = moved;
            }
            Err(error) => {
                tracing::error!(%error, "machine or settings changed since the last run: the journal's rules stay in force");
            }
        }
    }
    let rules = journaled.ledger().rules().clone();
    let rulebook = match config.dialect {
        NodeDialect::Kubelet => Rulebook::Kubelet,
        NodeDialect::Koordinator => {
            let args = scheduler_args(config)?;
            Rulebook::Koordinator(Box::new(Koordinator::new(&rules, args)))
        }
    };
    let unknown_containers = maintenance::unknown_containers(config);
    let pins = maintenance::kubelet_pins(config, maintenance::kubelet_state(config).as_ref());
    let node = ManagedNode::new(journaled, rulebook, unknown_containers, pins);
    let node = match config.takeover.cpu_set_allocator {
        true => node,
        false => node.observe_only(),
    };
    Ok((node, moves))
}

/// Arguments of Koordinator's scheduler plugin, for pods that the agent places itself.
fn scheduler_args(config: &AgentConfig) -> Result<KoordinatorArgs, AgentError> {
    let Some(path) = &config.koordinator.scheduler_config_file else {
        return Ok(KoordinatorArgs::default());
    };
    let bytes = host::read_file(path)?;
    let file = path.to_string_lossy();
    let documents = manifest::read(&file, &bytes).map_err(AgentError::Rules)?;
    let Some(document) = documents.first() else {
        return Ok(KoordinatorArgs::default());
    };
    let read = scheduler_args_of(document).map_err(AgentError::Rules)?;
    for warning in &read.warnings {
        tracing::warn!(%warning, "scheduler configuration");
    }
    Ok(read.value)
}

type HostAndOffers = (Option<Arc<DeviceHost>>, Option<OfferReceiver>);

fn devices(config: &AgentConfig, machine: &LocalMachine) -> Result<HostAndOffers, AgentError> {
    if !config.devices.manage_plugins {
        return Ok((None, None));
    }
    if let Some(reason) = reason_to_expect_kubelet(config) {
        return Err(AgentError::NodeHasKubelet(reason));
    }
    let mut manager = PluginManagerConfig::new(&config.devices.plugin_directory);
    for node in machine.machine.nodes() {
        for core in &node.cores {
            let socket = i32::try_from(core.socket).unwrap_or(i32::MAX);
            manager.sockets.entry(socket).or_default().insert(node.id);
        }
    }
    let (host, offers) = DeviceHost::start(HostConfig {
        manager,
        checkpoint: config.state_directory.join("devices"),
        pod_resources: config.pod_resources.socket.clone(),
    })?;
    if let Some(error) = host.lost_checkpoint() {
        tracing::warn!(%error, "device checkpoint lost, device plugins allocate again");
    }
    Ok((Some(Arc::new(host)), Some(offers)))
}

/// Why the node has a kubelet, to which device plugins belong; `None` if nothing shows one.
fn reason_to_expect_kubelet(config: &AgentConfig) -> Option<String> {
    if config.kubernetes.kubeconfig != Access::None {
        return Some("kubernetes.kubeconfig makes it a node of a cluster".to_owned());
    }
    let registration = config.devices.plugin_directory.join("kubelet.sock");
    let sockets = [registration, config.pod_resources.kubelet_socket.clone()];
    // A socket that a terminated process left behind refuses connections.
    let served = sockets.iter().find(|at| UnixStream::connect(at).is_ok());
    served.map(|socket| format!("a process serves {}", socket.display()))
}

/// Sets the niceness of this thread and the threads it starts: the runtime waits for the agent, which otherwise competes
/// with starting containers for a CPU after every fsync of the journal.
fn set_niceness(niceness: i8) {
    let set = rustix::process::setpriority_process(None, niceness.into());
    if let Err(error) = set {
        tracing::info!(niceness, %error, "setting the niceness failed");
    }
}

fn runner(config: &AgentConfig) -> Result<Option<Runner>, AgentError> {
    let Some(socket) = &config.runtime.nri_socket else {
        return Ok(None);
    };
    let index = config.runtime.plugin_index.parse::<u8>();
    let index = index.map_err(|error| AgentError::Identity(error.to_string()))?;
    let identity = Identity::new("pinfold", index);
    let identity = identity.map_err(|error| AgentError::Identity(error.to_string()))?;
    let runner = Runner::from_environment(identity);
    let runner = runner.map_err(|error| AgentError::Identity(error.to_string()))?;
    Ok(Some(runner.socket(socket)))
}

/// Records the devices that device plugins offer in the ledger.
fn record_device_offers(service: &Service, offers: &OfferReceiver) {
    while let Ok((resource, devices)) = offers.recv() {
        let mut node = lock(&service.node);
        let taken = node.journaled_mut().set_devices(&resource, devices, now());
        drop(node);
        match taken {
            Ok(true) => service.telemetry.node_changed(),
            Ok(false) => {}
            Err(error) => service.telemetry.record_error(&error),
        }
    }
}

/// The suppressor of best-effort pods; `None` if the configuration has none.
fn suppressor(service: &Arc<Service>) -> Option<Suppressor> {
    let config = &service.config;
    let is_wanted = config.dialect == NodeDialect::Koordinator
        && config.koordinator.suppression
        && config.takeover.cpu_set_allocator;
    if !is_wanted {
        return None;
    }
    let hierarchy = match &service.writer {
        Some(writer) => writer.hierarchy().clone(),
        None => Hierarchy::find(Path::new("/")).ok()?,
    };
    Some(Suppressor {
        service: service.clone(),
        hierarchy,
        stat: "/proc/stat".into(),
        threshold: config.koordinator.suppression_threshold,
    })
}

/// Applies every change of the Node object.
fn follow(service: &Service, node: &NodeCache) {
    let mut last = 0;
    loop {
        let (change, seen) = node.wait_for_change(last);
        last = change;
        service.apply_node(&seen);
    }
}

/// Publishes the node's state after every change.
struct NodeReporter {
    service: Arc<Service>,
    devices: Option<Arc<DeviceHost>>,
    pod_resources: Option<PodResourcesServer>,
    publisher: Option<crate::kubernetes::Publisher>,
}

impl NodeReporter {
    fn run(&self, changes: &Receiver<()>) {
        while changes.recv().is_ok() {
            thread::sleep(REPORT_DELAY);
            let _ = changes.try_recv();
            let snapshot = self.service.snapshot();
            let in_cluster = self.service.cluster.is_some();
            if let Some(host) = &self.devices {
                host.publish(snapshot.pod_resources(in_cluster));
            }
            if let Some(pod_resources) = &self.pod_resources {
                pod_resources.publish(snapshot.pod_resources(in_cluster));
            }
            if let Some(publisher) = &self.publisher {
                match self.service.report(&snapshot) {
                    Some(report) => publisher.publish(report),
                    None => publisher.hold_back(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use pinfold_cluster::koordinator::policy_values::BindPolicy;

    use super::*;

    #[test]
    fn device_plugins_register_with_the_agent_only_on_nodes_without_a_kubelet() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = AgentConfig::default();
        config.devices.plugin_directory = folder.path().to_owned();
        config.pod_resources.kubelet_socket = folder.path().join("pod-resources.sock");
        assert_eq!(reason_to_expect_kubelet(&config), None);
        for name in ["kubelet.sock", "pod-resources.sock"] {
            let socket = folder.path().join(name);
            let kubelet = UnixListener::bind(&socket).expect("a socket");
            let reason = reason_to_expect_kubelet(&config).expect("a kubelet serves it");
            assert!(reason.contains(name), "{reason}");
            drop(kubelet);
            assert_eq!(reason_to_expect_kubelet(&config), None, "left behind");
        }
        config.kubernetes.kubeconfig = Access::InCluster;
        config.devices.manage_plugins = true;
        let machine = LocalMachine::detect().expect("a machine");
        let Err(error) = devices(&config, &machine) else {
            panic!("rejected");
        };
        let text = error.to_string();
        assert!(
            text.contains("kubernetes.kubeconfig") && text.contains("Set it to false"),
            "{text}"
        );
    }

    #[test]
    fn the_scheduler_plugins_arguments_are_read_from_its_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("scheduler.yaml");
        let mut config = AgentConfig::default();
        let default = scheduler_args(&config).expect("defaults");
        assert_eq!(default.default_bind, Some(BindPolicy::FullPcpus));
        config.koordinator.scheduler_config_file = Some(file.clone());
        assert!(scheduler_args(&config).is_err(), "the file is missing");
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
            - pluginConfig:\n  - name: NodeNUMAResource\n    args: {defaultCPUBindPolicy: SpreadByPCPUs}\n";
        std::fs::write(&file, text).expect("written");
        let args = scheduler_args(&config).expect("a configuration");
        assert_eq!(args.default_bind, Some(BindPolicy::SpreadByPcpus));
        std::fs::write(&file, "kind: Pod").expect("written");
        assert!(
            scheduler_args(&config).is_err(),
            "the file is not a scheduler configuration"
        );
    }
}
