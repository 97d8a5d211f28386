//! Computes the allowance of each container, and the updates when allowances change.

use pinfold_cluster::koordinator::pools::{AllowedCpus, Pools};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use super::admit::EVERY_CONTAINER;
use super::managed_container::ManagedContainer;
use super::{ManagedNode, Rulebook, Update};
use crate::allowance::{Allowance, Quota};

/// CFS period in microseconds.
const PERIOD: u64 = 100_000;

impl ManagedNode {
    /// The allowance of a container; `None` if it is not pinned.
    pub(super) fn allowance(&mut self, container: &ManagedContainer) -> Option<Allowance> {
        let pools = self.pools();
        self.compute_allowance(container, pools.as_ref())
    }

    /// Updates of containers whose allowance changed and has not been sent to the runtime.
    pub(super) fn updates(&mut self) -> Vec<Update> {
        let pools = self.pools();
        let mut updates = Vec::new();
        let mut containers = std::mem::take(&mut self.containers);
        for container in containers.values_mut() {
            let mut allowance = self.compute_allowance(container, pools.as_ref());
            let found = container.found_allowance.take();
            if let Some(old) = container.sent_allowance.as_ref().or(found.as_ref()) {
                self.withdraw_allowance(container, old, &mut allowance);
            }
            if container.sent_allowance == allowance {
                continue;
            }
            container.sent_allowance.clone_from(&allowance);
            self.update_seq = self.update_seq.saturating_add(1);
            container.update_seq = self.update_seq;
            if let Some(allowance) = allowance {
                updates.push(Update {
                    container: container.id.clone(),
                    allowance,
                });
            }
        }
        self.containers = containers;
        updates
    }

    /// Names what the runtime must set again for a container that was `old` allowed: what an allowance leaves out would stay
    /// in its cgroup.
    fn withdraw_allowance(
        &self,
        container: &ManagedContainer,
        old: &Allowance,
        allowance: &mut Option<Allowance>,
    ) {
        if self.observe_only || self.is_kubelet_pinned(container) {
            return;
        }
        let new = allowance.get_or_insert_with(|| Allowance {
            cpus: CpuSet::new(),
            mems: NodeSet::EMPTY,
            quota: Quota::AsSpecified,
        });
        if new.mems.is_empty() && !old.mems.is_empty() {
            new.mems = self.all_memory_nodes();
        }
        if new.cpus.is_empty() && !old.cpus.is_empty() {
            new.cpus = self.journaled.ledger().rules().machine().online().clone();
        }
        if new.quota == Quota::AsSpecified {
            new.quota = match old.quota {
                // Only Guaranteed containers have exclusive CPUs: their limit is the request.
                Quota::Unlimited => match container.resources.requested_milli() {
                    0 => Quota::AsSpecified,
                    milli => Quota::Limited {
                        quota: milli.unsigned_abs().saturating_mul(PERIOD / 1000),
                        period: PERIOD,
                    },
                },
                quota => quota,
            };
        }
    }

    /// Koordinator's current CPU pools; `None` under the kubelet's rules.
    pub(super) fn pools(&mut self) -> Option<Pools> {
        let Rulebook::Koordinator(koordinator) = &mut self.rulebook else {
            return None;
        };
        koordinator.refresh_pods(&self.journaled);
        Some(koordinator.pools(self.journaled.ledger()))
    }

    /// The allowance of a container, given Koordinator's pools if its rules apply.
    fn compute_allowance(
        &self,
        container: &ManagedContainer,
        pools: Option<&Pools>,
    ) -> Option<Allowance> {
        if self.observe_only || self.is_kubelet_pinned(container) {
            return None;
        }
        match (&self.rulebook, pools) {
            (Rulebook::Koordinator(koordinator), Some(pools)) => {
                let ledger = self.journaled.ledger();
                let (pod, name) = (&container.resident, &container.name);
                let (allowed, mems) = koordinator.allowed(pod, name, pools, ledger);
                let (cpus, quota) = match allowed {
                    AllowedCpus::Own(cpus) => (cpus, Quota::Unlimited),
                    AllowedCpus::Shared(cpus) => (self.or_fallback(cpus), Quota::AsSpecified),
                    AllowedCpus::Inherited | AllowedCpus::Untouched => return None,
                };
                Some(Allowance { cpus, mems, quota })
            }
            _ => self.allowance_by_kubelet(container),
        }
    }

    /// The allowance of a container that is being created. A kubelet that pinned the pod earlier may not pin any more: a
    /// container that it makes anew gets the CPUs of the one before.
    pub(super) fn creation_allowance(&mut self, container: &ManagedContainer) -> Option<Allowance> {
        let allowance = self.allowance(container);
        if allowance.is_some() || self.observe_only || !self.is_kubelet_pinned(container) {
            return allowance;
        }
        let cpus = self.journaled.ledger().state().cpus();
        let own = cpus.container(&container.resident, &container.name);
        Some(Allowance {
            cpus: own
                .cloned()
                .unwrap_or_else(|| self.or_fallback(cpus.shared().clone())),
            mems: NodeSet::EMPTY,
            quota: Quota::AsSpecified,
        })
    }

    /// Exclusive CPUs and memory nodes, or the shared pool; `None` where the kubelet's managers would set nothing.
    fn allowance_by_kubelet(&self, container: &ManagedContainer) -> Option<Allowance> {
        let state = self.journaled.ledger().state();
        let exclusive = state
            .cpus()
            .container(&container.resident, &container.name)
            .or_else(|| {
                state
                    .cpus()
                    .container(&container.resident, &EVERY_CONTAINER.into())
            });
        let blocks = state.memory().blocks(&container.resident, &container.name);
        let mems = blocks.into_iter().flatten();
        let mems = mems.fold(NodeSet::EMPTY, |nodes, block| nodes | block.nodes);
        let (cpus, quota) = match exclusive {
            Some(exclusive) => (exclusive.clone(), Quota::Unlimited),
            None if self.pins_cpus() => (
                self.or_fallback(state.cpus().shared().clone()),
                Quota::AsSpecified,
            ),
            None => (CpuSet::new(), Quota::AsSpecified),
        };
        let nothing = cpus.is_empty() && mems.is_empty();
        (!nothing).then_some(Allowance { cpus, mems, quota })
    }

    /// Whether pods can have exclusive CPUs: the CPU manager policy is `static`.
    fn pins_cpus(&self) -> bool {
        self.journaled.ledger().rules().has_exclusive_cpus()
    }

    /// Replaces an empty pool by the reserved CPUs, or by all online CPUs if none are reserved: a container needs at least
    /// one CPU.
    fn or_fallback(&self, cpus: CpuSet) -> CpuSet {
        if !cpus.is_empty() {
            return cpus;
        }
        let rules = self.journaled.ledger().rules();
        let reserved = rules.reserved_cpus();
        match reserved.is_empty() {
            true => rules.machine().online().clone(),
            false => reserved,
        }
    }

    /// All NUMA nodes that have memory.
    fn all_memory_nodes(&self) -> NodeSet {
        let nodes = self.journaled.ledger().rules().machine().nodes().iter();
        let with_memory = nodes.filter(|node| node.memory > 0);
        with_memory.map(|node| node.id).collect()
    }
}
