//! [`ResourceStatus`]: the scheduler's annotation `resource-status` on a pod.
//!
//! Koordinator's scheduler writes amounts per NUMA node (`numaNodeResources`); its design document had shared pools
//! (`cpuSharedPools`). Sound mode reads both, the amounts having precedence, and writes both; exact mode reads and
//! writes only the amounts.

use pinfold_cluster::koordinator::KoordinatorDefects;
use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amounts::{Amounts, CPU, NodeAmounts};
use pinfold_cluster::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_cluster::koordinator::ledger::Allocation;
use pinfold_cluster::koordinator::plugin::PodDemand;
use pinfold_cluster::koordinator::policy_values::ExclusivePolicy;
use pinfold_cluster::koordinator::pools::{CpuHolders, Pools};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

use super::annotations::keys;
use super::read_annotations::{AnnotationReader, cpu_list, pool};
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::json_value::{JsonValue, map};
use crate::manifest::field::FieldRef;
use crate::node::amounts;
use crate::pod::PodObject;

/// The CPUs and NUMA resources allocated to a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceStatus {
    /// Its CPUs; empty if it is not bound to CPUs.
    pub cpus: CpuSet,
    /// Its resources per NUMA node.
    pub numa: Vec<NumaNodeResources>,
    /// The shared pools it is confined to.
    pub shared_pools: Vec<SharedPoolRef>,
}

/// A pod's resources on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNodeResources {
    /// The NUMA node.
    pub node: NodeId,
    /// The amounts.
    pub resources: ResourceList,
}

/// A shared pool, identified by socket and NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPoolRef {
    /// The socket.
    pub socket: i64,
    /// The NUMA node.
    pub node: NodeId,
}

impl ResourceStatus {
    /// Parses the annotation; `None` if the pod has none. In exact mode an invalid annotation is ignored with a
    /// warning, as Koordinator's scheduler ignores such a pod.
    ///
    /// # Errors
    /// If it cannot be parsed (sound mode).
    pub fn read(
        pod: &PodObject,
        fidelity: Fidelity,
    ) -> Result<WithWarnings<Option<Self>>, Diagnostics> {
        let meta = &pod.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, "Pod", &meta.full_name());
        let mut reader = AnnotationReader {
            fidelity,
            report: &mut report,
        };
        let status = reader.value(meta, keys::RESOURCE_STATUS, |field, report| {
            read(field, fidelity, report)
        });
        report.finish(status)
    }

    /// The status of an allocation. In sound mode it includes the shared pools of pods that share CPUs on certain NUMA
    /// nodes; `topology` has the socket of each node.
    #[must_use]
    pub fn of(allocation: &Allocation, topology: &KoordinatorTopology, fidelity: Fidelity) -> Self {
        let parts = Pools::of(topology, &CpuHolders::default()).shared;
        let sockets: BTreeMap<i64, i64> = parts
            .iter()
            .rev()
            .map(|part| (part.node, part.socket))
            .collect();
        let shares = allocation.cpus.is_empty() && !fidelity.omits_shared_pools();
        let shared_pools = allocation
            .numa
            .iter()
            .filter(|_| shares)
            .filter_map(|part| {
                let socket = *sockets.get(&i64::from(part.node.get()))?;
                let node = part.node;
                Some(SharedPoolRef { socket, node })
            });
        Self {
            cpus: allocation.cpus.clone(),
            shared_pools: shared_pools.collect(),
            numa: allocation
                .numa
                .iter()
                .map(|part| NumaNodeResources {
                    node: part.node,
                    resources: quantities(&part.amounts),
                })
                .collect(),
        }
    }

    /// The NUMA nodes that it names: those of the amounts, which have precedence, or of the pools.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        match self.numa.is_empty() {
            true => self.shared_pools.iter().map(|pool| pool.node).collect(),
            false => self.numa.iter().map(|part| part.node).collect(),
        }
    }

    /// The allocation of the pod. If the status has only pools, the pod's CPU is spread over them.
    #[must_use]
    pub fn allocation(&self, pod: &PodDemand) -> Allocation {
        let mut numa: Vec<NodeAmounts> = Vec::new();
        for part in &self.numa {
            let amounts = Amounts::of(&part.resources);
            match numa.iter_mut().find(|own| own.node == part.node) {
                Some(own) => own.amounts.add(&amounts),
                None => numa.push(NodeAmounts {
                    node: part.node,
                    amounts,
                }),
            }
        }
        if numa.is_empty() {
            numa = spread(pod.requests.get(CPU), &self.shared_pools);
        }
        numa.sort_by_key(|part| part.node);
        Allocation {
            cpus: self.cpus.clone(),
            exclusive: ExclusivePolicy::level(pod.spec.preferred_exclusive.as_ref()),
            numa,
        }
    }

    /// The text of the annotation.
    #[must_use]
    pub fn to_json(&self) -> String {
        let some = |items: Vec<JsonValue>| (!items.is_empty()).then_some(JsonValue::List(items));
        let numa = self.numa.iter().map(|part| {
            let resources = part.resources.iter();
            let resources = resources.map(|(name, amount)| {
                let amount = JsonValue::Text(amount.to_string());
                (name.as_str().to_owned(), amount)
            });
            map([
                ("node", Some(i64::from(part.node.get()).into())),
                ("resources", Some(JsonValue::Map(resources.collect()))),
            ])
        });
        let pools = self.shared_pools.iter().map(|pool| {
            map([
                ("socket", Some(pool.socket.into())),
                ("node", Some(i64::from(pool.node.get()).into())),
            ])
        });
        let cpus = (!self.cpus.is_empty()).then(|| JsonValue::Text(self.cpus.to_string()));
        let status = map([
            ("cpuset", cpus),
            ("numaNodeResources", some(numa.collect())),
            ("cpuSharedPools", some(pools.collect())),
        ]);
        status.to_json()
    }
}

fn quantities(amounts: &Amounts) -> ResourceList {
    let quantity = |name: &str, amount: i64| match name {
        CPU => Quantity::milli(amount),
        "memory" => Quantity::bytes(amount),
        name if name.starts_with("hugepages-") => Quantity::bytes(amount),
        _ => amount.into(),
    };
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), quantity(name.as_str(), amount)))
        .collect()
}

/// Splits an amount in thousandths equally; the first parts get the remainder. Each has at least a thousandth, so that it
/// counts as CPU.
fn spread(milli: i64, pools: &[SharedPoolRef]) -> Vec<NodeAmounts> {
    let mut nodes: Vec<NodeId> = pools.iter().map(|pool| pool.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let count = i64::try_from(nodes.len()).unwrap_or(i64::MAX).max(1);
    let (each, more) = (milli / count, milli % count);
    let part = |(i, node): (i64, NodeId)| NodeAmounts {
        node,
        amounts: Amounts::from([(CPU, (each + i64::from(i < more)).max(1))]),
    };
    (0..).zip(nodes).map(part).collect()
}

fn read(
    field: &FieldRef<'_>,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> Option<ResourceStatus> {
    let field = field.map("an object with a cpuset", report)?;
    let mut status = ResourceStatus {
        cpus: cpu_list(&field, "cpuset", report),
        ..ResourceStatus::default()
    };
    let parts = field.get_as_go("numaNodeResources");
    let parts = parts.map(|parts| parts.items("a list of NUMA nodes", report));
    for part in parts.unwrap_or_default() {
        let Some(part) = part.map("a NUMA node with its resources", report) else {
            continue;
        };
        let Some(node) = node_id(&part, report) else {
            continue;
        };
        let resources = part.get_as_go("resources");
        let resources = resources.and_then(|list| list.map("amounts by resource", report));
        let resources = resources.map(|list| amounts(&list, report));
        status.numa.push(NumaNodeResources {
            node,
            resources: resources.unwrap_or_default(),
        });
    }
    if fidelity.omits_shared_pools() {
        return Some(status);
    }
    let pools = field.get_as_go("cpuSharedPools");
    let rows = pools.map(|pools| pools.items("a list of pools", report));
    for row in rows.unwrap_or_default() {
        let Some(row) = row.map("a pool with socket and node", report) else {
            continue;
        };
        let socket = pool(&row, report).socket;
        if let Some(node) = node_id(&row, report) {
            status.shared_pools.push(SharedPoolRef { socket, node });
        }
    }
    contradiction(&field, &status, report);
    Some(status)
}

/// Warns if the amounts and the pools name different NUMA nodes; the amounts have precedence.
fn contradiction(field: &FieldRef<'_>, status: &ResourceStatus, report: &mut DiagnosticReport) {
    let named = |pool: &SharedPoolRef| status.numa.iter().any(|part| part.node == pool.node);
    if !status.numa.is_empty() && !status.shared_pools.iter().all(named) {
        let message =
            "numaNodeResources and cpuSharedPools name different NUMA nodes; the former counts";
        field.warn(
            DiagnosticKind::Contradiction(message.to_owned()),
            None,
            report,
        );
    }
}

fn node_id(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<NodeId> {
    let what = "the id of a NUMA node, 0 to 63";
    let Some(id) = field.get_as_go("node") else {
        return Some(NodeId::MIN);
    };
    let number = id.integer(what, report)?;
    match NodeId::new(number) {
        Ok(node) => Some(node),
        Err(_) => {
            id.unexpected(what, report);
            None
        }
    }
}
