//! Reads the Node and NodeResourceTopology objects of a scenario.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amounts::{Amounts, NodeAmounts};
use pinfold_cluster::koordinator::amplify::Ratios;
use pinfold_cluster::koordinator::cpu_topology::{KoordinatorTopology, ReportedCpu};
use pinfold_cluster::koordinator::ledger::KoordinatorLedger;
use pinfold_cluster::koordinator::node::{
    KoordinatorNode, KoordinatorReport, KubeletCpus, RatioAnnotation, zone_id,
};
use pinfold_cluster::koordinator::policy_values::{AllocateStrategy, NodeBindPolicy, NumaPolicy};
use pinfold_cluster::koordinator::qos::KubeletPinning;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::ResourceName;
use pinfold_core::pod::ResourceList;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::node_state::cpu_id;

type Texts = BTreeMap<String, String>;

#[derive(Deserialize)]
pub(super) struct NodeInput {
    labels: Option<Texts>,
    annotations: Option<Texts>,
    allocatable: ResourceList,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportInput {
    annotations: Option<Texts>,
    topology_policies: Option<Vec<String>>,
    zones: Option<Vec<Zone>>,
}

#[derive(Deserialize)]
struct Zone {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    resources: Option<ResourceList>,
}

#[derive(Default, Deserialize)]
struct CpuTopology {
    #[serde(default)]
    detail: Vec<CpuDetail>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct CpuDetail {
    id: i64,
    core: i64,
    socket: i64,
    node: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodCpus {
    uid: String,
    cpuset: String,
    #[serde(rename = "managedByKubelet")]
    managed_by_kubelet: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KubeletPolicy {
    policy: String,
    options: BTreeMap<String, String>,
    #[serde(rename = "reservedCPUs")]
    reserved_cpus: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reservation {
    #[serde(rename = "reservedCPUs")]
    reserved_cpus: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SystemCpus {
    cpuset: String,
    #[serde(rename = "cpusetExclusive")]
    exclusive: Option<bool>,
}

const RATIO: &str = "node.koordinator.sh/resource-amplification-ratio";

pub(super) fn node(
    input: &NodeInput,
    report: Option<&ReportInput>,
) -> Result<KoordinatorNode, String> {
    let label = |key: &str| {
        input
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key))
            .map_or("", String::as_str)
    };
    let ratios = match input
        .annotations
        .as_ref()
        .and_then(|texts| texts.get(RATIO))
    {
        None => RatioAnnotation::Absent,
        Some(text) => match serde_json::from_str::<Option<BTreeMap<ResourceName, f64>>>(text) {
            Ok(Some(ratios)) => RatioAnnotation::Ratios(Ratios(ratios)),
            Ok(None) => RatioAnnotation::Absent,
            Err(error) => RatioAnnotation::Unreadable(error.to_string()),
        },
    };
    Ok(KoordinatorNode {
        bind_policy: NodeBindPolicy::parse(label("node.koordinator.sh/cpu-bind-policy")),
        strategy: AllocateStrategy::parse(label("node.koordinator.sh/numa-allocate-strategy")),
        numa_policy: NumaPolicy::parse(label("node.koordinator.sh/numa-topology-policy")),
        ratios,
        report: report.map(ReportInput::build).transpose()?,
        allocatable: Amounts::of(&input.allocatable),
        requested: Amounts::new(),
        ledger: KoordinatorLedger::new(Fidelity::Exact),
    })
}

impl ReportInput {
    /// The value of an annotation; the default if it is missing or, as in Koordinator, cannot be parsed.
    fn read<T: DeserializeOwned + Default>(&self, key: &str) -> T {
        let text = self.annotations.as_ref().and_then(|texts| texts.get(key));
        text.and_then(|text| serde_json::from_str::<Option<T>>(text).ok())
            .flatten()
            .unwrap_or_default()
    }

    fn build(&self) -> Result<KoordinatorReport, String> {
        let topology: CpuTopology = self.read("node.koordinator.sh/cpu-topology");
        let rows: Result<Vec<ReportedCpu>, String> = topology
            .detail
            .iter()
            .map(|cpu| {
                Ok(ReportedCpu {
                    cpu: cpu_id(cpu.id)?,
                    core: cpu.core,
                    node: cpu.node,
                    socket: cpu.socket,
                })
            })
            .collect();
        let kubelet: KubeletPolicy = self.read("kubelet.koordinator.sh/cpu-manager-policy");
        let zones = self
            .zones
            .iter()
            .flatten()
            .filter(|zone| zone.kind == "Node");
        let zones = zones.filter_map(|zone| {
            Some(NodeAmounts {
                node: zone_id(&zone.name)?,
                amounts: zone.resources.as_ref().map(Amounts::of).unwrap_or_default(),
            })
        });
        let mut report = KoordinatorReport::new(
            KoordinatorTopology::from_report(rows?, Fidelity::Exact),
            &cpus(&kubelet.reserved_cpus),
            self.set_aside(),
            zones.collect(),
        );
        let option = |key: &str| {
            kubelet
                .options
                .get(key)
                .is_some_and(|value| value == "true")
        };
        report.kubelet = KubeletCpus {
            pinning: match kubelet.policy.as_str() {
                "static" => KubeletPinning::Static,
                _ => KubeletPinning::None,
            },
            full_pcpus_only: option("full-pcpus-only"),
            distribute_across_numa: option("distribute-cpus-across-numa"),
        };
        report.topology_policies = self.topology_policies.clone().unwrap_or_default();
        report.ratios = self
            .read::<Option<BTreeMap<ResourceName, f64>>>(RATIO)
            .map(Ratios);
        Ok(report)
    }

    /// CPUs of pods that the kubelet pins, of the node's reservation and of exclusive system pods.
    fn set_aside(&self) -> CpuSet {
        let pods: Vec<PodCpus> = self.read("node.koordinator.sh/pod-cpu-allocs");
        let mut set_aside = CpuSet::new();
        for pod in pods
            .iter()
            .filter(|pod| pod.managed_by_kubelet && !pod.uid.is_empty())
        {
            set_aside |= &cpus(&pod.cpuset);
        }
        let reservation: Reservation = self.read("node.koordinator.sh/reservation");
        set_aside |= &cpus(&reservation.reserved_cpus);
        let system: SystemCpus = self.read("node.koordinator.sh/system-qos-resource");
        if system.exclusive != Some(false) {
            set_aside |= &cpus(&system.cpuset);
        }
        set_aside
    }
}

/// Parses a CPU list; empty if it is not valid.
fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap_or_default()
}
