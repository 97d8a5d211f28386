//! Choices of vc-scheduler that depend on chance: the order of sockets in which it takes whole cores.
//!
//! It sorts sockets, which it reads from a Go map in random order, by "fewer free cores or a lower number". Of two sockets
//! each can then come before the other, and the order before decides. It counts a core as free if the CPU with the number
//! of the core is free.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde_json::Value;

/// The CPUs of a Numatopology by socket and core, and by NUMA node.
pub(super) struct Sockets {
    cores: BTreeMap<u64, BTreeMap<u32, CpuSet>>,
    nodes: BTreeMap<u64, CpuSet>,
}

impl Sockets {
    /// Those of an object.
    pub(super) fn of(object: &Value) -> Self {
        let mut sockets = Self {
            cores: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        let cpus = object["spec"]["cpuDetail"].as_object();
        for (id, place) in cpus.into_iter().flatten() {
            // Zeros are left out.
            let number = |name: &str| place[name].as_u64().unwrap_or(0);
            let (Some(cpu), Ok(core)) = (
                id.parse().ok().and_then(CpuId::new),
                u32::try_from(number("core")),
            ) else {
                continue;
            };
            let cores = sockets.cores.entry(number("socket")).or_default();
            *cores.entry(core).or_default() |= &CpuSet::single(cpu);
            *sockets.nodes.entry(number("numa")).or_default() |= &CpuSet::single(cpu);
        }
        sockets
    }

    /// Whether vc-scheduler may choose these CPUs of those that are free, and others at another time.
    pub(super) fn may_choose(&self, chosen: &CpuSet, free: &CpuSet) -> bool {
        // Which NUMA nodes it aligns to is not looked at again: any of them may be.
        let nodes: Vec<&CpuSet> = self.nodes.values().collect();
        let masks = 1..1_u32 << nodes.len();
        masks.into_iter().any(|mask| {
            let within = nodes
                .iter()
                .enumerate()
                .filter(|(at, _)| mask >> at & 1 == 1);
            let cpus = within.fold(CpuSet::new(), |all, (_, cpus)| &all | *cpus);
            let claims = self.claims(&(free & &cpus), chosen.len());
            claims.len() > 1
                && claims
                    .iter()
                    .any(|claim| claim.iter().all(|cpu| chosen.contains(*cpu)))
        }) && chosen.is_subset(free)
    }

    /// The whole cores that it may take first, for every order of sockets.
    fn claims(&self, free: &CpuSet, needed: usize) -> BTreeSet<Vec<CpuId>> {
        let cores = || self.cores.values().flat_map(BTreeMap::values);
        let all: usize = cores().map(CpuSet::len).sum();
        let per_socket = all / self.cores.len().max(1);
        let per_core = all / cores().count().max(1);
        // Whole sockets come first, in the order of their numbers.
        if needed >= per_socket || needed > free.len() {
            return BTreeSet::new();
        }
        let free_cores = |socket: u64| -> Vec<&CpuSet> {
            let cores = self.cores[&socket].iter();
            let counted = cores.filter(|(number, cpus)| {
                let is_free = CpuId::new(**number).is_some_and(|cpu| free.contains(cpu));
                is_free && !cpus.is_disjoint(free)
            });
            counted.map(|(_, cpus)| cpus).collect()
        };
        let sockets = self.cores.iter();
        let with_free =
            sockets.filter(|(_, cores)| cores.values().any(|cpus| !cpus.is_disjoint(free)));
        let sockets: Vec<u64> = with_free.map(|(socket, _)| *socket).collect();
        let mut claims = BTreeSet::new();
        for mut order in permutations(&sockets) {
            insertion_sort(&mut order, |one, other| {
                free_cores(one).len() < free_cores(other).len() || one < other
            });
            let (mut claim, mut needed) = (CpuSet::new(), needed);
            for core in order.into_iter().flat_map(free_cores) {
                if needed < per_core || needed == 0 {
                    break;
                }
                let taken = core & free;
                needed = needed.saturating_sub(taken.len());
                claim |= &taken;
            }
            claims.insert(claim.iter().collect());
        }
        claims
    }
}

/// As Go's `sort.Slice` sorts up to twelve elements.
fn insertion_sort(items: &mut [u64], less: impl Fn(u64, u64) -> bool) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && less(items[at], items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

fn permutations(items: &[u64]) -> Vec<Vec<u64>> {
    let Some((first, rest)) = items.split_first() else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for shorter in permutations(rest) {
        for at in 0..=shorter.len() {
            let mut longer = shorter.clone();
            longer.insert(at, *first);
            all.push(longer);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse(list).expect("a list")
    }

    /// Two sockets of four cores with two threads.
    fn machine() -> Sockets {
        let cpus = (0..16).map(|cpu| {
            let (core, socket) = (cpu % 8, cpu % 8 / 4);
            let place = json!({ "core": core, "socket": socket, "numa": socket });
            (cpu.to_string(), place)
        });
        let detail: serde_json::Map<String, Value> = cpus.collect();
        Sockets::of(&json!({ "spec": { "cpuDetail": detail } }))
    }

    #[test]
    fn whole_cores_of_either_socket_may_come_first() {
        let free = cpus("0,2,7-8,10,14-15");
        assert!(machine().may_choose(&cpus("0,2,8,10,14"), &free));
        assert!(machine().may_choose(&cpus("0,7-8,14-15"), &free));
        assert!(!machine().may_choose(&cpus("0,2,8,10,14"), &cpus("0,2,7-8,10,15")));
    }

    #[test]
    fn an_order_that_does_not_depend_on_chance_has_one_outcome() {
        // The first socket has fewer free cores and the lower number.
        let free = cpus("0,5-8,13-15");
        assert!(!machine().may_choose(&cpus("0,8"), &free));
        assert!(!machine().may_choose(&cpus("5,13"), &free));
    }
}
