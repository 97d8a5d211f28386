//! Checks what a pod's annotation `resource-status` names: any author of a pod can write it.

use pinfold_cluster::koordinator::amounts::{Amounts, CPU, MILLI};
use pinfold_cluster::koordinator::effective_policy::EffectivePolicy;
use pinfold_cluster::koordinator::plugin::{self, PodDemand};
use pinfold_cluster::koordinator::policy_values::NodeBindPolicy;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::node_set::NodeId;
use pinfold_kube::koordinator::{self as objects, ResourceStatus, keys};
use pinfold_kube::pod::PodObject;

use super::{Koordinator, check_class};

impl Koordinator {
    /// Why a pod may not have the CPUs or pools that its annotation names, which any author of a pod can write.
    pub(in crate::node) fn reject_choice(
        &self,
        pod: &PodObject,
        status: &ResourceStatus,
        ledger: &Ledger,
    ) -> Option<String> {
        let fidelity = ledger.rules().fidelity();
        let demand = match objects::demand(pod, fidelity) {
            Ok(read) => read.value,
            Err(findings) => return Some(findings.to_string()),
        };
        if let Err(problem) = check_class(&demand, fidelity) {
            return Some(problem);
        }
        let state = match plugin::pre_filter(&demand, &self.args, fidelity) {
            Ok(state) => state,
            Err(rejection) => return Some(rejection.to_string()),
        };
        let node = self.plugin_node(ledger);
        let terms = state.map(|state| EffectivePolicy::of(&state, &node, &self.args));
        let is_bound = match terms.transpose() {
            Ok(terms) => terms.is_some_and(|terms| terms.bind),
            Err(rejection) => return Some(rejection.to_string()),
        };
        match status.cpus.is_empty() {
            true if is_bound => {
                Some("its QoS class and requests give it CPUs of its own".to_owned())
            }
            true => self.reject_pools(&demand, status, ledger),
            false if !is_bound => {
                Some("its QoS class and requests give it no CPUs of its own".to_owned())
            }
            false => self.reject_cpus(&demand, &status.cpus, fidelity),
        }
    }

    /// Why a pod that binds CPUs may not have these.
    fn reject_cpus(
        &self,
        demand: &PodDemand,
        chosen: &CpuSet,
        fidelity: Fidelity,
    ) -> Option<String> {
        let count = usize::try_from(demand.requests.get(CPU) / MILLI).unwrap_or(0);
        let bind = self.settings.policies.bind.as_ref();
        let binds_otherwise = match bind {
            Some(NodeBindPolicy::FullPcpusOnly) => {
                self.topology.in_whole_cores(chosen, fidelity) != *chosen
            }
            Some(NodeBindPolicy::SpreadByPcpus) => {
                self.topology.one_of_each_core(chosen) != *chosen
            }
            _ => false,
        };
        let annotated = &self.node_reserved & chosen;
        let system = match self.system_exclusive {
            true => &self.system_cpus & chosen,
            false => CpuSet::new(),
        };
        match () {
            () if count != chosen.len() => Some(format!("it requests {count} CPUs")),
            () if !annotated.is_empty() => Some(format!(
                "CPUs {annotated} are reserved by the annotation {}",
                keys::RESERVATION
            )),
            () if !system.is_empty() => Some(format!(
                "CPUs {system} are reserved by the annotation {}",
                keys::SYSTEM_QOS
            )),
            () if binds_otherwise => {
                let policy = bind.map_or("", NodeBindPolicy::as_str);
                Some(format!(
                    "the Node's label {} is {policy}",
                    keys::BIND_POLICY
                ))
            }
            () => None,
        }
    }

    /// Why a pod may not be bound to the shared pools of these NUMA nodes.
    fn reject_pools(
        &self,
        demand: &PodDemand,
        status: &ResourceStatus,
        ledger: &Ledger,
    ) -> Option<String> {
        let pools = self.pools(ledger);
        let has_pool = |id: NodeId| {
            let parts = pools.shared.iter();
            let mut parts = parts.chain(&pools.best_effort);
            parts.any(|part| part.node == i64::from(id.get()))
        };
        for node in status.nodes() {
            if self.topology.cpus_of_node(node).is_none() {
                return Some(format!("the machine has no NUMA node {node} with CPUs"));
            }
            if !has_pool(node) {
                return Some(format!("NUMA node {node} has no shared CPUs"));
            }
        }
        let mut total = Amounts::new();
        for part in &status.numa {
            total.add(&Amounts::of(&part.resources));
        }
        let mut amounts = total.iter();
        // A pod without a CPU request has a thousandth of a CPU, which names its NUMA node.
        let beyond = amounts.find(|(name, amount)| {
            *amount
                > demand
                    .requests
                    .get(name.as_str())
                    .max(i64::from(name.as_str() == CPU))
        });
        beyond.map(|(name, _)| format!("it has more {name} than the pod requests"))
    }
}
