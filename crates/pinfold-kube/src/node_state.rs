//! [`PublishedNodeState`]: our agent's annotation on a NodeResourceTopology with the resources of each pod.
//!
//! Counts say how much is available, not which pods hold the rest. A scheduler needs that in two cases: a pod that it
//! bound and that the report lacks must be added, and a pod that was deleted and that the report still has must be
//! removed, as the kubelet removes it before its next admission. So the annotation [`NODE_STATE`] lists the pods and
//! their resources:
//!
//! ```json
//! {"dialect":"kubelet","fidelity":"exact","pods":[
//!   {"uid":"6d3f","cpus":"2-3","memory":[{"resource":"memory","nodes":[0],"bytes":1073741824}],
//!    "devices":[{"resource":"vendor.com/nic","nodes":[0],"count":1}]}]}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use pinfold_cluster::node_topology::attributes::{MEMORY_GROUP, TOPOLOGY_POLICY, TOPOLOGY_SCOPE};
use pinfold_cluster::node_topology::numa_zones::numa_id;
use pinfold_cluster::node_topology::publish::zone_name;
use pinfold_cluster::node_topology::{self, NodeTopology};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{DeviceId, PodUid, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::occupancy::HeldMemory;
use pinfold_core::quantity::Quantity;

use crate::annotation::Annotation;
use crate::cluster::DialectName;
use crate::diagnostic::{DiagnosticReport, Diagnostics, WithWarnings};
use crate::json_value::{JsonValue, map};
use crate::manifest::field::FieldRef;
use crate::node_resource_topology::{KIND, NodeResourceTopology, NrtAttribute};

/// The key of the annotation.
pub const NODE_STATE: &str = "pinfold.dev/node-state";

/// Limit of the pods of one node.
const MAX_PODS: usize = 2048;

/// The rules of a node, and the resources that each of its pods holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedNodeState {
    /// The program whose rules decide.
    pub dialect: DialectName,
    /// With the defects of that program, or without.
    pub fidelity: Fidelity,
    /// All pods in the node's ledger, including those without exclusive resources.
    pub pods: Vec<PublishedPodState>,
}

/// The resources that one pod holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPodState {
    /// Its uid, as the node knows it.
    pub uid: PodUid,
    /// Its exclusive CPUs.
    pub cpus: CpuSet,
    /// Its memory and hugepages.
    pub memory: Vec<HeldMemory>,
    /// Its devices.
    pub devices: Vec<HeldDevices>,
    /// Whether a client of the agent declared it, so that the API server does not know it.
    pub local: bool,
}

/// Devices of one resource with the same NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDevices {
    /// The resource.
    pub resource: ResourceName,
    /// Their NUMA nodes; empty for devices without a node.
    pub nodes: NodeSet,
    /// The number of devices.
    pub count: u64,
}

impl PublishedNodeState {
    /// The state of a node's ledger.
    #[must_use]
    pub fn of(ledger: &Ledger, dialect: DialectName) -> Self {
        let residents = ledger.admitted_pods().into_iter();
        Self {
            dialect,
            fidelity: ledger.rules().fidelity(),
            pods: residents
                .map(|resident| pod_state(ledger, &resident.pod.uid))
                .collect(),
        }
    }

    /// This state, with the pods that the API server does not know marked as local: no scheduler may take them for
    /// deleted.
    #[must_use]
    pub fn with_local(mut self, is_local: impl Fn(&PodUid) -> bool) -> Self {
        for pod in &mut self.pods {
            pod.local = is_local(&pod.uid);
        }
        self
    }

    /// Adds to a report what its counts do not contain: the managers' policies and options, the groups of NUMA nodes,
    /// and the state of the ledger.
    pub fn attach(ledger: &Ledger, dialect: DialectName, report: &mut NodeResourceTopology) {
        Self::of(ledger, dialect).attach_to(ledger, report);
    }

    /// Adds to a report of this ledger what its counts do not contain, and this state.
    pub fn attach_to(&self, ledger: &Ledger, report: &mut NodeResourceTopology) {
        let core = NodeTopology::of(ledger);
        add_attributes(&mut report.attributes, core.attributes);
        for zone in core.zones {
            let same = report.zones.iter_mut().find(|own| own.name == zone.name);
            if let Some(own) = same {
                add_attributes(&mut own.attributes, zone.attributes);
            }
        }
        let annotations = &mut report.meta.annotations;
        annotations.insert(NODE_STATE.to_owned(), self.to_json());
    }

    /// The annotation's text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let pods = JsonValue::List(self.pods.iter().map(PublishedPodState::content).collect());
        let fidelity = match self.fidelity {
            Fidelity::Exact | Fidelity::Version(_) => "exact",
            Fidelity::Sound | Fidelity::Repeating(_) => "sound",
        };
        let whole = map([
            ("dialect", Some(JsonValue::text(self.dialect.name()))),
            ("fidelity", Some(JsonValue::text(fidelity))),
            ("pods", Some(pods)),
        ]);
        whole.to_json()
    }

    /// Parses the annotation of a report; `None` if it has none, because another program wrote the report.
    ///
    /// # Errors
    /// If it cannot be parsed.
    pub fn read(
        topology: &NodeResourceTopology,
    ) -> Result<WithWarnings<Option<Self>>, Diagnostics> {
        let meta = &topology.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, KIND, &meta.name);
        let annotation = Annotation::read(meta, NODE_STATE, &mut report);
        let state = annotation.map(|annotation| read(&annotation.root(), &mut report));
        report.finish(state)
    }

    /// Removes pods that no longer exist from the counts of a report, as the kubelet does before it admits the next
    /// pod. Local pods remain. Returns the exclusive CPUs of the remaining pods.
    pub fn without(
        &self,
        topology: &mut NodeTopology,
        is_gone: impl Fn(&PodUid) -> bool,
    ) -> CpuSet {
        let gone = |pod: &&PublishedPodState| !pod.local && is_gone(&pod.uid);
        let (gone, remaining): (Vec<&PublishedPodState>, Vec<&PublishedPodState>) =
            self.pods.iter().partition(gone);
        for pod in &gone {
            for memory in &pod.memory {
                release_memory(topology, memory);
            }
            for devices in &pod.devices {
                release_devices(topology, devices);
            }
        }
        if !gone.is_empty() {
            regroup(topology, &remaining);
        }
        let mut held = CpuSet::new();
        for pod in remaining {
            held |= &pod.cpus;
        }
        held
    }
}

/// Adds attributes that do not exist yet.
fn add_attributes(own: &mut Vec<NrtAttribute>, more: Vec<node_topology::Attribute>) {
    for node_topology::Attribute { name, value } in more {
        // In v1alpha1 the policy value states them, and they would contradict it.
        let is_word = [TOPOLOGY_POLICY, TOPOLOGY_SCOPE].contains(&name.as_str());
        if !is_word && !own.iter().any(|attribute| attribute.name == name) {
            own.push(NrtAttribute {
                name,
                value,
                ..NrtAttribute::default()
            });
        }
    }
}

fn pod_state(ledger: &Ledger, uid: &PodUid) -> PublishedPodState {
    let mut memory: BTreeMap<(ResourceName, Vec<u32>), HeldMemory> = BTreeMap::new();
    let mut ids: BTreeMap<ResourceName, BTreeSet<DeviceId>> = BTreeMap::new();
    let assignment = ledger.assignment(uid);
    for held in assignment.into_iter().flat_map(|all| all.containers) {
        for block in held.memory.into_iter().flatten() {
            let key: Vec<u32> = block.nodes.iter().map(NodeId::get).collect();
            let sum = memory.entry((block.resource.clone(), key));
            let sum = sum.or_insert_with(|| HeldMemory {
                nodes: block.nodes,
                resource: block.resource,
                bytes: 0,
            });
            sum.bytes = sum.bytes.saturating_add(block.size);
        }
        for (resource, devices) in held.devices {
            ids.entry(resource).or_default().extend(devices);
        }
    }
    let pool = ledger.state().pool();
    let mut devices: Vec<HeldDevices> = Vec::new();
    for (resource, ids) in ids {
        for id in ids {
            let device = pool.devices(&resource).and_then(|offer| offer.get(&id));
            let nodes = device.map_or(NodeSet::EMPTY, |device| device.nodes() & pool.nodes());
            let same = |own: &&mut HeldDevices| own.resource == resource && own.nodes == nodes;
            match devices.iter_mut().find(same) {
                Some(own) => own.count += 1,
                None => devices.push(HeldDevices {
                    resource: resource.clone(),
                    nodes,
                    count: 1,
                }),
            }
        }
    }
    PublishedPodState {
        uid: uid.clone(),
        cpus: ledger.exclusive_cpus(uid),
        memory: memory.into_values().collect(),
        devices,
        local: false,
    }
}

impl PublishedPodState {
    fn content(&self) -> JsonValue {
        let nodes = |nodes: NodeSet| {
            let ids = nodes.iter().map(|id| i64::from(id.get()).into());
            Some(JsonValue::List(ids.collect()))
        };
        let number = |number: u64| Some(JsonValue::Number(number.to_string()));
        let memory = self.memory.iter().map(|held| {
            map([
                ("resource", Some(JsonValue::text(held.resource.as_str()))),
                ("nodes", nodes(held.nodes)),
                ("bytes", number(held.bytes)),
            ])
        });
        let devices = self.devices.iter().map(|held| {
            map([
                ("resource", Some(JsonValue::text(held.resource.as_str()))),
                ("nodes", nodes(held.nodes)),
                ("count", number(held.count)),
            ])
        });
        let list = |items: Vec<JsonValue>| (!items.is_empty()).then_some(JsonValue::List(items));
        let cpus = (!self.cpus.is_empty()).then(|| JsonValue::Text(self.cpus.to_string()));
        map([
            ("uid", Some(JsonValue::text(self.uid.as_str()))),
            ("cpus", cpus),
            ("memory", list(memory.collect())),
            ("devices", list(devices.collect())),
            ("local", self.local.then_some(true.into())),
        ])
    }
}

fn read(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> PublishedNodeState {
    let mut state = PublishedNodeState {
        dialect: DialectName::Kubelet,
        fidelity: Fidelity::Exact,
        pods: Vec::new(),
    };
    let Some(field) = field.map("an object with dialect, fidelity and pods", report) else {
        return state;
    };
    let word = |key: &str, known: &[&str], report: &mut DiagnosticReport| {
        let field = field.get(key)?;
        field.word(known, report).map(str::to_owned)
    };
    let dialect = word("dialect", &["kubelet", "koordinator"], report);
    if dialect.as_deref() == Some("koordinator") {
        state.dialect = DialectName::Koordinator;
    }
    if word("fidelity", &["exact", "sound"], report).as_deref() == Some("sound") {
        state.fidelity = Fidelity::Sound;
    }
    let pods = field.get_list("pods", "a list of pods", report);
    let pods = pods.iter().take(MAX_PODS);
    state.pods = pods.filter_map(|pod| read_pod(pod, report)).collect();
    state
}

fn read_pod(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<PublishedPodState> {
    let field = field.map("a pod with its uid", report)?;
    let uid = field.required_text("uid", "the id of a pod", report)?;
    let mut state = PublishedPodState {
        uid: uid.into(),
        cpus: CpuSet::new(),
        memory: Vec::new(),
        devices: Vec::new(),
        local: false,
    };
    if let Some(local) = field.get("local") {
        state.local = local.boolean("true or false", report) == Some(true);
    }
    if let Some(cpus) = field.get("cpus") {
        const WHAT: &str = "a CPU list such as 0-3,8";
        let parsed = cpus.text(WHAT, report).map(CpuSet::parse);
        match parsed {
            Some(Ok(set)) => state.cpus = set,
            Some(Err(error)) => cpus.unexpected_with(WHAT, Some(error.to_string()), report),
            None => {}
        }
    }
    for held in field.get_list("memory", "a list of memory", report) {
        let resource = held.required_text("resource", "a resource", report);
        let (nodes, bytes) = (nodes(&held, report), count(&held, "bytes", report));
        state.memory.extend(resource.map(|resource| HeldMemory {
            nodes,
            resource: resource.into(),
            bytes,
        }));
    }
    for held in field.get_list("devices", "a list of devices", report) {
        let resource = held.required_text("resource", "a resource", report);
        let (nodes, count) = (nodes(&held, report), count(&held, "count", report));
        state.devices.extend(resource.map(|resource| HeldDevices {
            resource: resource.into(),
            nodes,
            count,
        }));
    }
    Some(state)
}

fn nodes(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> NodeSet {
    const WHAT: &str = "the number of a NUMA node";
    let mut nodes = NodeSet::EMPTY;
    for item in field.get_list("nodes", "a list of NUMA nodes", report) {
        match item.integer(WHAT, report).map(NodeId::new) {
            Some(Ok(id)) => nodes.insert(id),
            Some(Err(_)) => item.unexpected(WHAT, report),
            None => {}
        }
    }
    nodes
}

fn count(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> u64 {
    const WHAT: &str = "a number that is not negative";
    let Some(field) = field.get(key) else {
        return 0;
    };
    match field.integer(WHAT, report).map(u64::try_from) {
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            field.unexpected(WHAT, report);
            0
        }
        None => 0,
    }
}

/// Releases memory. Memory on several NUMA nodes is released on the first nodes first, as far as it is in use there:
/// the state does not say how it is divided, and the kubelet releases it in this order too.
fn release_memory(topology: &mut NodeTopology, held: &HeldMemory) {
    let mut rest = Quantity::bytes(i64::try_from(held.bytes).unwrap_or(i64::MAX));
    for zone in &mut topology.zones {
        if !numa_id(&zone.name).is_some_and(|id| held.nodes.contains(id)) {
            continue;
        }
        let row = zone
            .resources
            .iter_mut()
            .find(|row| row.name == held.resource);
        if let Some(row) = row {
            let in_use = row.allocatable - row.available;
            let back = in_use.min(rest);
            if back.is_positive() {
                row.available += back;
                rest -= back;
            }
        }
    }
}

/// Releases devices. A device with several NUMA nodes is counted on each of them.
fn release_devices(topology: &mut NodeTopology, held: &HeldDevices) {
    let count = Quantity::from(i64::try_from(held.count).unwrap_or(i64::MAX));
    for zone in &mut topology.zones {
        if !numa_id(&zone.name).is_some_and(|id| held.nodes.contains(id)) {
            continue;
        }
        let row = zone
            .resources
            .iter_mut()
            .find(|row| row.name == held.resource);
        if let Some(row) = row {
            row.available = (row.available + count).min(row.allocatable);
        }
    }
}

/// Recomputes the groups of NUMA nodes from the remaining pods.
fn regroup(topology: &mut NodeTopology, remaining: &[&PublishedPodState]) {
    for zone in &mut topology.zones {
        let Some(id) = numa_id(&zone.name) else {
            continue;
        };
        let mut blocks = remaining.iter().flat_map(|pod| &pod.memory);
        let block = blocks.find(|held| held.nodes.contains(id));
        let names: Vec<String> = block
            .into_iter()
            .flat_map(|held| held.nodes.iter())
            .map(zone_name)
            .collect();
        for attribute in &mut zone.attributes {
            if attribute.name == MEMORY_GROUP {
                attribute.value = names.join(",");
            }
        }
    }
}

#[cfg(test)]
mod tests;
