//! A node with a kubelet of its own, and what it reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node_resource_topology;
use pinfold_kube::node_state::{NODE_STATE, PublishedNodeState};
use serde_json::{Value, json};

use crate::cache::node::{Heard, NodeFound, Reported, read_node, read_report};

/// A node: two NUMA nodes with four CPUs and 8 GiB each, of which one CPU and 1 GiB are reserved.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    /// Pods that the kubelet has not been told to be over.
    active: BTreeSet<PodUid>,
    version: u64,
    dialect: DialectName,
}

fn machine() -> Machine {
    let node = |id: u32| NumaNode {
        id: NodeId::new(id.into()).expect("small"),
        memory: 8 << 30,
        hugepages: Vec::new(),
        distances: match id {
            0 => vec![10, 21],
            _ => vec![21, 10],
        },
        cores: (id * 4..id * 4 + 4)
            .map(|core| Core {
                id: core,
                socket: id,
                die: None,
                l3: None,
                threads: vec![CpuId::new(core).expect("small")],
            })
            .collect(),
    };
    Machine::new(MachineParts {
        nodes: vec![node(0), node(1)],
        num_cpus: 8,
        num_sockets: 2,
        offline: CpuSet::new(),
    })
    .expect("a machine")
}

impl Node {
    pub(crate) fn new(name: &str, policy: &str, scope: &str) -> Self {
        let gib = ResourceList::from([("memory".into(), Quantity::bytes(1 << 30))]);
        let settings = Settings {
            fidelity: Fidelity::Exact,
            topology_policy: policy.to_owned(),
            topology_scope: scope.to_owned(),
            cpu_policy: "static".to_owned(),
            reserved_cpu: Some(1.into()),
            memory_policy: "Static".to_owned(),
            node_reservation: gib.clone(),
            reserved_memory: vec![MemoryReservation {
                numa_node: 0,
                limits: gib,
            }],
            ..Settings::default()
        };
        let rules = Rules::new(machine().into(), settings).expect("rules");
        Self {
            name: name.to_owned(),
            ledger: Ledger::new(Arc::new(rules)),
            active: BTreeSet::new(),
            version: 1,
            dialect: DialectName::Kubelet,
        }
    }

    pub(crate) fn under_koordinator(mut self) -> Self {
        self.dialect = DialectName::Koordinator;
        self
    }

    /// Lets a pod in, as a kubelet does: who is over is forgotten first. Whether it was let in.
    pub(crate) fn admit(&mut self, pod: &Arc<Pod>) -> bool {
        let stale: Vec<PodUid> = self
            .ledger
            .state()
            .admitted_pods()
            .keys()
            .filter(|uid| !self.active.contains(*uid))
            .cloned()
            .collect();
        for uid in stale {
            let _ = self.ledger.release(&uid);
        }
        let admitted = self.ledger.admit(pod, &mut NoPreference).expect("a pod");
        let admitted = admitted.decision.is_admitted();
        if admitted {
            self.active.insert(pod.uid.clone());
        }
        admitted
    }

    /// Whether it would let a pod in.
    pub(crate) fn would_admit(&self, pod: &Arc<Pod>) -> bool {
        let mut copy = Self {
            name: self.name.clone(),
            ledger: self.ledger.clone(),
            active: self.active.clone(),
            version: self.version,
            dialect: self.dialect,
        };
        copy.admit(pod)
    }

    /// A pod's containers have ended.
    pub(crate) fn over(&mut self, pod: &PodUid) {
        self.active.remove(pod);
    }

    pub(crate) fn object(&self) -> Value {
        json!({
            "metadata": { "name": self.name, "resourceVersion": "1" },
            "status": { "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" } },
        })
    }

    pub(crate) fn found(&self) -> NodeFound {
        read_node(self.object()).expect("a node")
    }

    /// What it reports by now.
    pub(crate) fn report_json(&self) -> Value {
        let rules = self.ledger.rules();
        let (machine, settings) = (rules.machine(), rules.settings());
        let occupancy = self.ledger.occupancy();
        let plain = node_resource_topology::publish(&self.name, machine, &occupancy, settings);
        let mut facts = ReportAnnotations::of(machine, settings, rules.reserved_cpus());
        if self.dialect == DialectName::Koordinator {
            facts.cpu_manager.policy = "none".to_owned();
        }
        let mut told = koordinator::publish(&plain, &facts);
        PublishedNodeState::attach(&self.ledger, self.dialect, &mut told);
        let told = told.converted(node_resource_topology::NrtVersion::V1Alpha2);
        let mut told = serde_json::to_value(told.content()).expect("JSON");
        told["metadata"]["resourceVersion"] = format!("{}", self.version).into();
        told["metadata"]["annotations"]["pinfold.dev/generation"] = "7".into();
        told
    }

    pub(crate) fn report(&self, now: Instant) -> (NodeName, Heard<Reported>) {
        let mut told = self.report_json();
        let text = told.to_string();
        // Every content has a version of its own.
        told["metadata"]["resourceVersion"] = format!("{:x}", hash(&text)).into();
        read_report(told, now).expect("a report")
    }

    /// What another reporter would say: counts alone.
    pub(crate) fn counts(&self, now: Instant) -> (NodeName, Heard<Reported>) {
        let mut told = self.report_json();
        told["metadata"]["annotations"] = json!({});
        told["metadata"]["resourceVersion"] = format!("{:x}", hash(&told.to_string())).into();
        read_report(told, now).expect("a report")
    }

    /// A report that makes no sense.
    pub(crate) fn nonsense(&self, now: Instant) -> (NodeName, Heard<Reported>) {
        let mut told = self.report_json();
        told["metadata"]["annotations"][NODE_STATE] = "{".into();
        told["metadata"]["resourceVersion"] = "nonsense".into();
        read_report(told, now).expect("a name")
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
