//! What each container may use, and who has to be told when that changes.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::koordinator::pools::{AllowedCpus, Pools};
use pinfold_core::node_set::NodeSet;

use super::admit::EVERY_CONTAINER;
use super::guest::Guest;
use super::{Node, Rulebook, Update};
use crate::allowance::{Allowance, Quota};
use pinfold_journal::PodOrigin;

impl Node {
    /// What a container may use; `None` if it is left alone.
    pub(super) fn allowance(&mut self, guest: &Guest) -> Option<Allowance> {
        let pools = self.pools();
        self.allowance_from(guest, pools.as_ref())
    }

    /// What others may use now that they were not told yet.
    pub(super) fn updates(&mut self) -> Vec<Update> {
        let pools = self.pools();
        let mut updates = Vec::new();
        let mut guests = std::mem::take(&mut self.guests);
        for guest in guests.values_mut() {
            let mut allowance = self.allowance_from(guest, pools.as_ref());
            if let (Some(new), Some(old)) = (&mut allowance, &guest.told)
                && new.mems.is_empty()
                && !old.mems.is_empty()
            {
                // Whoever was confined is set free by naming all of them.
                new.mems = self.every_memory();
            }
            if guest.told == allowance {
                continue;
            }
            guest.told.clone_from(&allowance);
            self.tellings = self.tellings.saturating_add(1);
            guest.changes = self.tellings;
            if let Some(allowance) = allowance {
                updates.push(Update {
                    container: guest.id.clone(),
                    allowance,
                });
            }
        }
        self.guests = guests;
        updates
    }

    /// Koordinator's pools of the moment.
    pub(super) fn pools(&mut self) -> Option<Pools> {
        let Rulebook::Koordinator(book) = &mut self.rulebook else {
            return None;
        };
        book.learn(&self.journaled);
        Some(book.pools(self.journaled.ledger()))
    }

    fn allowance_from(&self, guest: &Guest, pools: Option<&Pools>) -> Option<Allowance> {
        if self.hands_off {
            return None;
        }
        match (&self.rulebook, pools) {
            (Rulebook::Koordinator(book), Some(pools)) => {
                let ledger = self.journaled.ledger();
                let (allowed, mems) = book.allowed(&guest.resident, pools, ledger);
                let (cpus, quota) = match allowed {
                    AllowedCpus::Own(cpus) => (cpus, Quota::Lifted),
                    AllowedCpus::Shared(cpus) => (self.some(cpus), Quota::AsAsked),
                    AllowedCpus::Inherited | AllowedCpus::Untouched => return None,
                };
                Some(Allowance { cpus, mems, quota })
            }
            _ => self.allowance_by_kubelet(guest),
        }
    }

    /// Own CPUs and memory nodes, or the shared pool; nothing where the kubelet's managers would set nothing.
    fn allowance_by_kubelet(&self, guest: &Guest) -> Option<Allowance> {
        let note = self.journaled.records().get(&guest.resident);
        if note.is_some_and(|note| note.origin == PodOrigin::Kubelet) {
            return None;
        }
        let state = self.journaled.ledger().state();
        let own = state
            .cpus()
            .container(&guest.resident, &guest.name)
            .or_else(|| {
                state
                    .cpus()
                    .container(&guest.resident, &EVERY_CONTAINER.into())
            });
        let blocks = state.memory().blocks(&guest.resident, &guest.name);
        let mems = blocks.into_iter().flatten();
        let mems = mems.fold(NodeSet::EMPTY, |nodes, block| nodes | block.nodes);
        let (cpus, quota) = match own {
            Some(own) => (own.clone(), Quota::Lifted),
            None if self.pins_cpus() => (self.some(state.cpus().shared().clone()), Quota::AsAsked),
            None => (CpuSet::new(), Quota::AsAsked),
        };
        let nothing = cpus.is_empty() && mems.is_empty();
        (!nothing).then_some(Allowance { cpus, mems, quota })
    }

    /// Whether anybody can have CPUs for themselves here.
    fn pins_cpus(&self) -> bool {
        self.journaled.ledger().rules().settings().cpu_policy == "static"
    }

    /// A pool that has run dry is replaced by what is reserved for the system, or else by everything: no container
    /// can run on no CPU.
    fn some(&self, cpus: CpuSet) -> CpuSet {
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

    fn every_memory(&self) -> NodeSet {
        let nodes = self.journaled.ledger().rules().machine().nodes().iter();
        let with_memory = nodes.filter(|node| node.memory > 0);
        with_memory.map(|node| node.id).collect()
    }
}
