//! [`PlayedNode`]: a node of the cluster whose kubelet is a ledger of the core in exact mode.
//!
//! Its objects are made by the code with which a mirroring agent makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_agent::mirror::{MirrorSnapshot, PodName, objects};
use pinfold_core::demand::effective_requests;
use pinfold_core::device::{AdvertisedDevices, Device, NoPreference};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Machine, NumaNode};
use pinfold_core::name::PodUid;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::NodeAnnotations;
use pinfold_kube::node_resource_topology::NrtVersion;
use pinfold_kube::pod::PodObject;
use serde_json::{Value, json};

/// The most pods of a node, the kubelet's default.
const MOST_PODS: usize = 110;

/// A node that the suite plays.
pub(crate) struct PlayedNode {
    pub(crate) name: String,
    ledger: Ledger,
    names: BTreeMap<PodUid, PodName>,
    allocatable: ResourceList,
    used: ResourceList,
    /// How often anything changed.
    pub(crate) generation: u64,
    /// More labels of the node.
    labels: Value,
    /// Whether its report has the form of Koordinator's agent, which has fewer fields than ours.
    koordinator: bool,
}

/// A kubelet's answer to a pod that was bound to its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The pod runs.
    Runs,
    /// The pod failed: reason and message of its status.
    Fails(String, String),
}

impl PlayedNode {
    /// A node with nothing on it.
    pub(crate) fn new(name: &str, machine: Machine, settings: Settings) -> Result<Self, String> {
        let rules = Rules::new(Arc::new(machine), settings);
        let rules = Arc::new(rules.map_err(|error| format!("{name}: {error}"))?);
        let mut node = Self {
            name: name.to_owned(),
            allocatable: allocatable(&rules),
            ledger: Ledger::new(rules),
            names: BTreeMap::new(),
            used: ResourceList::new(),
            generation: 1,
            labels: json!({}),
            koordinator: false,
        };
        node.allocatable
            .insert("pods".into(), i64::try_from(MOST_PODS).unwrap_or(0).into());
        Ok(node)
    }

    /// Lets Koordinator's agent report it.
    pub(crate) fn reported_by_koordinator(mut self, labels: Value) -> Self {
        self.koordinator = true;
        self.labels = labels;
        self
    }

    /// Lets it have so many pods.
    pub(crate) fn with_most_pods(mut self, count: i64) -> Self {
        self.allocatable.insert("pods".into(), count.into());
        self
    }

    /// Gives it devices, as many near each of the NUMA nodes.
    pub(crate) fn with_devices(mut self, resource: &str, near: &[i64], each: u32) -> Self {
        let mut offer = AdvertisedDevices::new();
        for &node in near {
            for number in 0..each {
                let device = Device {
                    numa: Some(vec![node]),
                    healthy: true,
                };
                offer.insert(format!("{node}-{number}").as_str().into(), device);
            }
        }
        let count = i64::try_from(offer.len()).unwrap_or(0);
        self.allocatable.insert(resource.into(), count.into());
        let _ = self.ledger.set_devices(resource.into(), Some(offer));
        self
    }

    /// Whether the kubelet would let the pod in at this moment. Nothing changes.
    pub(crate) fn would_admit(&self, pod: &Pod) -> bool {
        if self.lacking(pod).is_some() {
            return false;
        }
        let mut trial = self.ledger.clone();
        let admission = trial.admit(&Arc::new(pod.clone()), &mut NoPreference);
        admission.is_ok_and(|admission| admission.decision.is_admitted())
    }

    /// A pod was bound to this node.
    pub(crate) fn admit(&mut self, object: &PodObject) -> Result<Answer, String> {
        let pod = Arc::new(object.pod.clone());
        self.generation += 1;
        if let Some(resource) = self.lacking(&pod) {
            let message = format!("Node didn't have enough resource: {resource}");
            return Ok(Answer::Fails(format!("OutOf{resource}"), message));
        }
        let admission = self.ledger.admit(&pod, &mut NoPreference);
        let admission = admission.map_err(|error| format!("{}: {error}", self.name))?;
        if let Some(rejection) = admission.decision.rejection() {
            let reason = rejection.reason.name().to_owned();
            return Ok(Answer::Fails(reason, rejection.message.clone()));
        }
        for (resource, amount) in requests(&pod) {
            *self.used.entry(resource).or_default() += amount;
        }
        let name = PodName {
            namespace: object.meta.namespace.clone(),
            name: object.meta.name.clone(),
        };
        self.names.insert(pod.uid.clone(), name);
        Ok(Answer::Runs)
    }

    /// A pod left, if it was here.
    pub(crate) fn release(&mut self, uid: &PodUid) -> bool {
        let residents = self.ledger.admitted_pods();
        let resident = residents.iter().find(|resident| resident.pod.uid == *uid);
        let Some(pod) = resident.map(|resident| resident.pod.clone()) else {
            return false;
        };
        if self.ledger.release(uid).is_err() {
            return false;
        }
        self.generation += 1;
        self.names.remove(uid);
        for (resource, amount) in requests(&pod) {
            *self.used.entry(resource).or_default() -= amount;
        }
        true
    }

    /// What a pod has here, and on which NUMA nodes that is, for people.
    pub(crate) fn holding(&self, pod: &str) -> Option<String> {
        let (uid, _) = self.names.iter().find(|(_, name)| name.name == pod)?;
        let assignment = self.ledger.assignment(uid)?;
        let machine = self.ledger.rules().machine();
        let mut on = BTreeSet::new();
        let mut things = Vec::new();
        for container in assignment.containers {
            if let Some(cpus) = container.cpus {
                let of = |node: &&NumaNode| {
                    let mut threads = node.cores.iter().flat_map(|core| &core.threads);
                    threads.any(|cpu| cpus.contains(*cpu))
                };
                on.extend(
                    machine
                        .nodes()
                        .iter()
                        .filter(of)
                        .map(|node| node.id.to_string()),
                );
                things.push(format!("CPUs {cpus}"));
            }
            for block in container.memory.unwrap_or_default() {
                on.extend(block.nodes.iter().map(|node| node.to_string()));
                things.push(block.resource.to_string());
            }
            for (resource, devices) in &container.devices {
                for device in devices {
                    // The suite names devices after their NUMA nodes.
                    on.extend(device.as_str().split('-').next().map(str::to_owned));
                    things.push(format!("{resource} {device}"));
                }
            }
        }
        let on: Vec<String> = on.into_iter().collect();
        let (things, on) = (things.join(", "), on.join(" and "));
        Some(format!("{}: {things}, all on node {on}", self.name))
    }

    /// Who holds what.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A resource of which the node as a whole has too little.
    fn lacking(&self, pod: &Pod) -> Option<String> {
        let lacks = |(resource, amount): (pinfold_core::name::ResourceName, Quantity)| {
            let most = self.allocatable.get(&resource).copied().unwrap_or_default();
            let used = self.used.get(&resource).copied().unwrap_or_default();
            (used + amount > most).then(|| resource.to_string())
        };
        requests(pod).into_iter().find_map(lacks)
    }

    /// The Node object.
    pub(crate) fn node(&self) -> Value {
        let amounts: BTreeMap<&str, String> = self
            .allocatable
            .iter()
            .map(|(resource, amount)| (resource.as_str(), amount.to_string()))
            .collect();
        let mut labels = self.labels.clone();
        labels["kubernetes.io/hostname"] = json!(self.name);
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": self.name, "labels": labels },
            "status": {
                "capacity": amounts, "allocatable": amounts,
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "KubeletReady",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        })
    }

    /// The NodeResourceTopology object in v1alpha2.
    pub(crate) fn topology(&self) -> Value {
        let picture = MirrorSnapshot {
            ledger: self.ledger.clone(),
            names: self.names.clone(),
            sharing: Vec::new(),
        };
        let first = objects(&picture, &self.name, &NodeAnnotations::default()).koordinator;
        let mut second = first.converted(NrtVersion::V1Alpha2);
        second
            .topology_policies
            .clone_from(&first.topology_policies);
        let generation = self.generation.to_string();
        let annotations = &mut second.meta.annotations;
        annotations.insert(GENERATION.to_owned(), generation);
        if self.koordinator {
            annotations.retain(|key, _| !key.starts_with("pinfold"));
        }
        serde_json::to_value(second.content()).unwrap_or_default()
    }
}

/// What a node may give to pods: everything but the reservations.
fn allocatable(rules: &Rules) -> ResourceList {
    let machine = rules.machine();
    let settings = rules.settings();
    let cpus = machine.online().len();
    let memory: u64 = machine.nodes().iter().map(|node| node.memory).sum();
    let mut all: ResourceList = [
        ("cpu".into(), i64::try_from(cpus).unwrap_or(0).into()),
        (
            "memory".into(),
            Quantity::bytes(i64::try_from(memory).unwrap_or(0)),
        ),
    ]
    .into();
    for node in machine.nodes() {
        for pages in &node.hugepages {
            let bytes = pages.size_kib * 1024 * pages.count;
            let bytes = Quantity::bytes(i64::try_from(bytes).unwrap_or(0));
            let resource = pinfold_core::memory::hugepages_resource(pages.size_kib);
            *all.entry(resource).or_default() += bytes;
            *all.entry("memory".into()).or_default() -= bytes;
        }
    }
    if let Some(cpu) = settings.reserved_cpu {
        *all.entry("cpu".into()).or_default() -= cpu;
    }
    for (resource, amount) in &settings.node_reservation {
        *all.entry(resource.clone()).or_default() -= *amount;
    }
    all
}

/// What a pod takes of a node as a whole, itself included.
fn requests(pod: &Pod) -> ResourceList {
    let mut requests = effective_requests(pod);
    requests.insert("pods".into(), 1.into());
    requests
}
