//! Writes a node's report as Koordinator's agent does: v1alpha1 with annotations.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amplify::Ratios;
use pinfold_cluster::koordinator::cpu_topology::ReportedCpu;
use pinfold_cluster::koordinator::pools::{PoolPart, Pools};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Rules;
use pinfold_core::machine::Machine;
use pinfold_core::settings::{CpuManagerPolicy, Settings};

use super::annotations::{
    CpuManagerInfo, NodeAnnotations, NodeReservation, PodCpuAllocation, ReportAnnotations,
    SharedPoolRow, keys,
};
use super::zone_cpus;
use crate::core_numbers::core_numbers;
use crate::json_value::{JsonValue, map};
use crate::node_resource_topology::{MANAGED_BY, NodeResourceTopology, NrtVersion};

impl ReportAnnotations {
    /// The annotations of a machine with these settings and without pods.
    #[must_use]
    pub fn of(machine: &Machine, settings: &Settings, reserved: CpuSet) -> Self {
        let numbers = core_numbers(machine);
        let mut cpus = Vec::new();
        for node in machine.nodes() {
            for core in &node.cores {
                cpus.extend(core.threads.iter().map(|cpu| ReportedCpu {
                    cpu: *cpu,
                    core: numbers.get(cpu).copied().unwrap_or_default(),
                    node: i64::from(node.id.get()),
                    socket: i64::from(core.socket),
                }));
            }
        }
        cpus.sort_by_key(|row| row.cpu);
        Self {
            cpus,
            cpu_manager: CpuManagerInfo {
                policy: settings.cpu_policy.name().to_owned(),
                options: settings.cpu_options.clone(),
                reserved,
            },
            ..Self::default()
        }
    }

    /// Copies the reservation and the CPUs of SYSTEM pods from the Node object, as koordlet does. A reservation that
    /// has only an amount of CPU gets the CPUs that the kubelet's CPU manager would reserve for it.
    pub fn copy_node(&mut self, node: &NodeAnnotations, rules: &Rules) {
        self.reservation = node.reservation.clone();
        self.reservation.cpus = node.reservation.reserved_cpus(rules);
        self.system.clone_from(&node.system);
    }

    /// These annotations with the current shared pools.
    #[must_use]
    pub fn with_pools(mut self, pools: &Pools) -> Self {
        let rows = |parts: &[PoolPart]| {
            let row = |part: &PoolPart| SharedPoolRow {
                socket: part.socket,
                node: part.node,
                cpus: part.cpuset.clone(),
            };
            parts.iter().map(row).collect()
        };
        self.shared_pools = rows(&pools.shared);
        self.be_shared_pools = rows(&pools.best_effort);
        self
    }

    /// The annotations as texts by key.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let mut cpus = self.cpus.clone();
        cpus.sort_by_key(|row| row.cpu);
        let cpu = |row: &ReportedCpu| {
            map([
                ("id", Some(i64::from(row.cpu.get()).into())),
                ("core", Some(row.core.into())),
                ("socket", Some(row.socket.into())),
                ("node", Some(row.node.into())),
            ])
        };
        let detail = JsonValue::List(cpus.iter().map(cpu).collect());
        let mut annotations: BTreeMap<String, String> = [
            (keys::CPU_TOPOLOGY, map([("detail", Some(detail))])),
            (keys::SHARED_POOLS, pools(&self.shared_pools)),
            (keys::BE_SHARED_POOLS, pools(&self.be_shared_pools)),
            (keys::POD_CPU_ALLOCS, pod_cpus(&self.pod_cpus)),
            (keys::CPU_MANAGER_POLICY, cpu_manager(&self.cpu_manager)),
            (keys::RESERVATION, reservation(&self.reservation)),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_json()))
        .into();
        if let Some(system) = &self.system {
            let value = map([
                ("cpuset", cpu_list(&system.cpus)),
                ("cpusetExclusive", Some(system.exclusive.into())),
            ]);
            annotations.insert(keys::SYSTEM_QOS.to_owned(), value.to_json());
        }
        if let Some(ratios) = &self.ratios {
            annotations.insert(keys::RATIOS.to_owned(), ratio_text(ratios));
        }
        annotations
    }
}

impl NodeReservation {
    /// The reserved CPUs: those that it lists, or as many as it reserves, chosen as the kubelet's CPU manager does.
    #[must_use]
    pub fn reserved_cpus(&self, rules: &Rules) -> CpuSet {
        let amount = self.resources.get("cpu").copied();
        let amount = amount.filter(|amount| amount.is_positive() && self.cpus.is_empty());
        let Some(amount) = amount else {
            return &self.cpus & rules.machine().online();
        };
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(amount),
            ..Settings::default()
        };
        let chosen = Rules::new(rules.machine().clone(), settings);
        chosen.map_or_else(|_| CpuSet::new(), |rules| rules.reserved_cpus())
    }
}

/// The report with these annotations as Koordinator's agent writes it: v1alpha1, with Koordinator's label.
#[must_use]
pub fn publish(
    topology: &NodeResourceTopology,
    annotations: &ReportAnnotations,
) -> NodeResourceTopology {
    let mut object = topology.converted(NrtVersion::V1Alpha1);
    let labels = &mut object.meta.labels;
    labels.insert(MANAGED_BY.to_owned(), "Koordinator".to_owned());
    object.meta.annotations.extend(annotations.annotations());
    for zone in &mut object.zones {
        zone_cpus::publish_for_koordinator(zone);
    }
    object
}

/// A CPU list; `None` if it is empty.
fn cpu_list(cpus: &CpuSet) -> Option<JsonValue> {
    (!cpus.is_empty()).then(|| JsonValue::Text(cpus.to_string()))
}

fn some_text(text: &str) -> Option<JsonValue> {
    (!text.is_empty()).then(|| JsonValue::text(text))
}

fn pools(rows: &[SharedPoolRow]) -> JsonValue {
    let mut rows: Vec<&SharedPoolRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.socket, row.node));
    let row = |row: &&SharedPoolRow| {
        map([
            ("socket", Some(row.socket.into())),
            ("node", Some(row.node.into())),
            ("cpuset", cpu_list(&row.cpus)),
        ])
    };
    JsonValue::List(rows.iter().map(row).collect())
}

/// Sorted by uid; `null` if there are none, as Koordinator writes it.
fn pod_cpus(pods: &[PodCpuAllocation]) -> JsonValue {
    if pods.is_empty() {
        return JsonValue::Null;
    }
    let mut pods: Vec<&PodCpuAllocation> = pods.iter().collect();
    pods.sort_by_key(|pod| (&pod.uid, &pod.namespace, &pod.name));
    let pod = |pod: &&PodCpuAllocation| {
        map([
            ("namespace", some_text(&pod.namespace)),
            ("name", some_text(&pod.name)),
            ("uid", some_text(&pod.uid)),
            ("cpuset", cpu_list(&pod.cpus)),
            (
                "managedByKubelet",
                pod.managed_by_kubelet.then_some(true.into()),
            ),
        ])
    };
    JsonValue::List(pods.iter().map(pod).collect())
}

fn cpu_manager(manager: &CpuManagerInfo) -> JsonValue {
    let options = manager.options.iter();
    let options = options.map(|(name, value)| (name.clone(), JsonValue::text(value)));
    let options: Vec<_> = options.collect();
    map([
        ("policy", some_text(&manager.policy)),
        (
            "options",
            (!options.is_empty()).then_some(JsonValue::Map(options)),
        ),
        ("reservedCPUs", cpu_list(&manager.reserved)),
    ])
}

fn reservation(reservation: &NodeReservation) -> JsonValue {
    let amounts = reservation.resources.iter();
    let amounts = amounts.map(|(name, amount)| {
        let amount = JsonValue::Text(amount.to_string());
        (name.as_str().to_owned(), amount)
    });
    let amounts: Vec<_> = amounts.collect();
    map([
        (
            "resources",
            (!amounts.is_empty()).then_some(JsonValue::Map(amounts)),
        ),
        ("reservedCPUs", cpu_list(&reservation.cpus)),
        ("applyPolicy", some_text(&reservation.apply_policy)),
    ])
}

/// Ratios with two decimals, as Koordinator prints them.
fn ratio_text(ratios: &Ratios) -> String {
    let ratios = ratios.0.iter();
    let ratios = ratios.map(|(name, ratio)| {
        let ratio = JsonValue::Number(format!("{ratio:.2}"));
        (name.as_str().to_owned(), ratio)
    });
    JsonValue::Map(ratios.collect()).to_json()
}
