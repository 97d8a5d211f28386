//! [`TestNode`]: a node whose ledger acts as its kubelet, and its reports.

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
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node_resource_topology;
use pinfold_kube::node_state::{NODE_STATE, PublishedNodeState};
use pinfold_kube::pod_fingerprint;
use serde_json::{Value, json};

use crate::cache::node::{NodeInfo, Observed, TopologyReport, parse_node, parse_report};

/// Two NUMA nodes with four CPUs and 8 GiB each, of which one CPU and 1 GiB are reserved.
pub(crate) struct TestNode {
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    /// Pods that have not terminated.
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

impl TestNode {
    pub(crate) fn new(name: &str, policy: &str, scope: &str) -> Self {
        Self::with_memory_policy(name, policy, scope, MemoryManagerPolicy::Static)
    }

    pub(crate) fn without_memory_manager(name: &str, policy: &str) -> Self {
        Self::with_memory_policy(name, policy, "container", MemoryManagerPolicy::None)
    }

    fn with_memory_policy(
        name: &str,
        policy: &str,
        scope: &str,
        memory_policy: MemoryManagerPolicy,
    ) -> Self {
        let gib = ResourceList::from([("memory".into(), Quantity::bytes(1 << 30))]);
        let settings = Settings {
            fidelity: Fidelity::Exact,
            topology_policy: policy.parse().expect("a policy"),
            topology_scope: scope.parse().expect("a scope"),
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(1.into()),
            memory_policy,
            node_reservation: gib.clone(),
            reserved_memory: match memory_policy {
                MemoryManagerPolicy::Static => vec![MemoryReservation {
                    numa_node: 0,
                    limits: gib,
                }],
                _ => Vec::new(),
            },
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

    /// Admits a pod as a kubelet does, which first releases terminated pods. Returns whether the pod was admitted.
    pub(crate) fn admit(&mut self, pod: &Arc<Pod>) -> bool {
        let terminated: Vec<PodUid> = self
            .ledger
            .state()
            .admitted_pods()
            .keys()
            .filter(|uid| !self.active.contains(*uid))
            .cloned()
            .collect();
        for uid in terminated {
            let _ = self.ledger.release(&uid);
        }
        let admitted = self.ledger.admit(pod, &mut NoPreference).expect("a pod");
        let admitted = admitted.decision.is_admitted();
        if admitted {
            self.active.insert(pod.uid.clone());
        }
        admitted
    }

    /// Whether a pod would be admitted.
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

    /// Terminates a pod.
    pub(crate) fn terminate(&mut self, pod: &PodUid) {
        self.active.remove(pod);
    }

    pub(crate) fn object(&self) -> Value {
        json!({
            "metadata": { "name": self.name, "resourceVersion": "1" },
            "status": { "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" } },
        })
    }

    pub(crate) fn info(&self) -> NodeInfo {
        parse_node(&self.object().to_string()).expect("a node")
    }

    /// The current NodeResourceTopology as JSON.
    pub(crate) fn report_json(&self) -> Value {
        let rules = self.ledger.rules();
        let (machine, settings) = (rules.machine(), rules.settings());
        let occupancy = self.ledger.occupancy();
        let plain = node_resource_topology::publish(&self.name, machine, &occupancy, settings);
        let mut annotations = ReportAnnotations::of(machine, settings, rules.reserved_cpus());
        if self.dialect == DialectName::Koordinator {
            annotations.cpu_manager.policy = "none".to_owned();
        }
        let mut report = koordinator::publish(&plain, &annotations);
        PublishedNodeState::attach(&self.ledger, self.dialect, &mut report);
        let report = report.converted(node_resource_topology::NrtVersion::V1Alpha2);
        let mut report = serde_json::to_value(report.content()).expect("JSON");
        report["metadata"]["resourceVersion"] = format!("{}", self.version).into();
        report["metadata"]["annotations"]["pinfold.dev/generation"] = "7".into();
        report
    }

    pub(crate) fn report(&self, now: Instant) -> (NodeName, Observed<TopologyReport>) {
        let mut report = self.report_json();
        let text = report.to_string();
        // A resource version that changes with the content.
        report["metadata"]["resourceVersion"] = format!("{:x}", hash(&text)).into();
        parse_report(&report.to_string(), now).expect("a report")
    }

    /// The report of another reporter, which does not list pods.
    pub(crate) fn report_without_pods(&self, now: Instant) -> (NodeName, Observed<TopologyReport>) {
        let mut report = self.report_json();
        report["metadata"]["annotations"] = json!({});
        report["metadata"]["resourceVersion"] = format!("{:x}", hash(&report.to_string())).into();
        parse_report(&report.to_string(), now).expect("a report")
    }

    /// The report of another reporter, which does not list pods but has the fingerprint of these.
    pub(crate) fn report_with_fingerprint(
        &self,
        pods: &[&str],
        now: Instant,
    ) -> (NodeName, Observed<TopologyReport>) {
        let mut report = self.report_json();
        report["metadata"]["annotations"] = json!({});
        let pods = pods.iter().map(|pod| ("default", *pod));
        let own = json!({ "name": pod_fingerprint::ATTRIBUTE, "value": pod_fingerprint::fingerprint(pods) });
        let attributes = report["attributes"].as_array_mut().expect("a list");
        attributes.retain(|own| {
            !own["name"]
                .as_str()
                .is_some_and(|name| name.contains("Fingerprint"))
        });
        attributes.push(own);
        report["metadata"]["resourceVersion"] = format!("{:x}", hash(&report.to_string())).into();
        parse_report(&report.to_string(), now).expect("a report")
    }

    /// A report that cannot be parsed.
    pub(crate) fn invalid_report(&self, now: Instant) -> (NodeName, Observed<TopologyReport>) {
        let mut report = self.report_json();
        report["metadata"]["annotations"][NODE_STATE] = "{".into();
        report["metadata"]["resourceVersion"] = "invalid".into();
        parse_report(&report.to_string(), now).expect("a name")
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
