//! Properties of sound decisions on any machine, however uneven.

use proptest::prelude::*;

use super::machines::{CoreShape, container, demand, fresh, pod, policy, sidecar, topology};
use crate::cpu::{
    CpuEdit, CpuError, CpuOptions, CpuSortingStrategy, CpuState, DistributionOptions,
    PackingOptions, PodCpus, StaticCpus, TakeError, take_distributed, take_packed,
};
use crate::cpu_set::{CpuId, CpuSet};
use crate::edit::Direction;
use crate::fidelity::Fidelity;
use crate::hint::{ProviderHints, ResourceHints};
use crate::node_set::NodeSet;
use crate::pod::Pod;

/// Up to five nodes of up to four cores; sockets and caches cut across them.
fn machines() -> impl Strategy<Value = Vec<Vec<CoreShape>>> {
    let core = (0..3_u32, prop::option::of(0..4_u32), 1..4_u32);
    let node = prop::collection::vec(core, 0..5);
    let some_cpus = |nodes: &Vec<Vec<CoreShape>>| nodes.iter().any(|cores| !cores.is_empty());
    prop::collection::vec(node, 1..6).prop_filter("a machine has a CPU", some_cpus)
}

fn options() -> impl Strategy<Value = CpuOptions> {
    let option = any::<[bool; 3]>();
    (option, 0..4).prop_map(|([full, by_socket, strict], kind)| CpuOptions {
        full_pcpus_only: full && kind != 1,
        align_by_socket: by_socket,
        strict_reservation: strict,
        distribute_across_cores: kind == 1,
        distribute_across_numa: kind == 2,
        prefer_align_by_cache: kind == 3,
    })
}

/// Some of the machine's CPUs.
fn some_of(all: &CpuSet, pick: u64) -> CpuSet {
    let picked = |cpu: &CpuId| pick.rotate_right(cpu.get()) & 1 == 1;
    all.iter().filter(picked).collect()
}

/// The events of a node.
#[derive(Clone, Debug)]
enum Event {
    Add {
        init: usize,
        sidecar: bool,
        app: usize,
        nodes: u64,
    },
    Remove {
        pod: usize,
        container: usize,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let add = (0..5_usize, any::<bool>(), 0..6_usize, any::<u64>());
    let add = add.prop_map(|(init, sidecar, app, nodes)| Event::Add {
        init,
        sidecar,
        app,
        nodes,
    });
    let remove = (0..8_usize, 0..2_usize);
    let remove = remove.prop_map(|(pod, container)| Event::Remove { pod, container });
    prop::collection::vec(prop_oneof![3 => add, 1 => remove], 1..16)
}

/// A node that keeps every edit.
struct Node {
    policy: StaticCpus,
    state: CpuState,
    journal: Vec<CpuEdit>,
}

impl Node {
    fn apply(&mut self, edits: impl IntoIterator<Item = CpuEdit>) {
        for edit in edits {
            self.state.apply(&edit).unwrap();
            self.journal.push(edit);
        }
    }

    fn admit(&mut self, pod: &Pod, affinity: Option<NodeSet>) -> Result<(), CpuError> {
        let mut own = PodCpus::default();
        for container in pod.all_containers() {
            let state = &self.state;
            let grant = self
                .policy
                .allocate(state, &own, affinity, &demand(pod), container)?;
            own.record(&grant);
            self.apply(grant.edits);
        }
        Ok(())
    }

    fn check(&self) {
        let shared = self.state.shared();
        let mut seen = shared.clone();
        for pod in self.state.containers().keys() {
            let held = self.state.containers_of(pod);
            assert!(
                held.is_disjoint(&seen),
                "pod {pod} shares {}",
                &held & &seen
            );
            assert!(held.is_disjoint(self.policy.reserved()));
            seen |= &held;
        }
        assert!(self.policy.start(&self.state).is_ok());
    }
}

proptest! {
    #[test]
    fn exactly_the_requested_number_of_available_cpus_is_taken(
        shape in machines(),
        pick in any::<u64>(),
        count in 0..40_usize,
        group in 0..4_usize,
        spread in any::<bool>(),
        align_by_cache in any::<bool>(),
    ) {
        let machine = topology(&shape);
        let available = some_of(machine.all(), pick);
        let order = if spread { CpuSortingStrategy::Spread } else { CpuSortingStrategy::Packed };
        let packing = PackingOptions { order, align_by_cache };
        for fidelity in [Fidelity::Exact, Fidelity::Sound] {
            let packed = take_packed(&machine, &available, count, packing, fidelity);
            let spread = take_distributed(
                &machine,
                &available,
                count,
                DistributionOptions {
                    order,
                    ..DistributionOptions::groups_of(group)
                },
                fidelity,
            );
            if fidelity == Fidelity::Sound {
                for taken in [packed, spread] {
                    match taken {
                        Ok(cpus) => {
                            prop_assert_eq!(cpus.len(), count);
                            prop_assert!(cpus.is_subset(&available));
                        }
                        Err(error) => {
                            let available = available.len();
                            let short = TakeError::NotEnough { requested: count, available };
                            prop_assert_eq!(error, short);
                            prop_assert!(count > available);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_cpu_is_held_twice_and_every_edit_can_be_undone(
        shape in machines(),
        options in options(),
        events in events(),
        reserve in any::<u64>(),
    ) {
        let machine = topology(&shape);
        prop_assume!(!options.align_by_socket || machine.num_sockets() <= machine.num_nodes());
        let reserved = some_of(machine.all(), reserve & 0x1111_1111_1111_1111);
        let policy = policy(machine, options, &reserved.to_string(), Fidelity::Sound);
        let state = fresh(&policy);
        prop_assume!(!state.shared().is_empty());
        let begin = state.clone();
        let mut node = Node { policy, state, journal: Vec::new() };
        for (at, event) in events.into_iter().enumerate() {
            match event {
                Event::Add { init, sidecar: side, app, nodes } => {
                    let init = match side {
                        true => sidecar("init", &init.to_string()),
                        false => container("init", &init.to_string()),
                    };
                    let app = container("app", &app.to_string());
                    let pod = pod(&at.to_string(), vec![init], vec![app]);
                    let affinity = (nodes & 1 == 1).then(|| NodeSet::from_bits(nodes >> 1));
                    let before = node.journal.len();
                    if node.admit(&pod, affinity).is_err() {
                        for edit in node.journal.split_off(before).iter().rev() {
                            node.state.edit(edit, Direction::Revert).unwrap();
                        }
                    }
                }
                Event::Remove { pod, container } => {
                    let name = ["init", "app"][container].into();
                    let uid = pod.to_string().as_str().into();
                    let edits = node.policy.remove_container(&node.state, &uid, &name);
                    node.apply(edits);
                }
            }
            if node.state.shared().is_empty() {
                break;
            }
            node.check();
        }
        for edit in node.journal.iter().rev() {
            node.state.edit(edit, Direction::Revert).unwrap();
        }
        prop_assert_eq!(node.state, begin);
    }

    #[test]
    fn every_hint_can_be_kept(
        shape in machines(),
        pick in any::<u64>(),
        count in 1..12_usize,
        spread in any::<bool>(),
    ) {
        let options = CpuOptions { distribute_across_numa: spread, ..CpuOptions::default() };
        let policy = policy(topology(&shape), options, "", Fidelity::Sound);
        let mut state = fresh(&policy);
        let busy = some_of(state.shared(), pick);
        let shared = CpuEdit::SharedPool {
            before: state.shared().clone(),
            after: state.shared() - &busy,
        };
        state.apply(&shared).unwrap();
        let pod = pod("p", vec![], vec![container("c", &count.to_string())]);
        let ProviderHints { rows } =
            policy.container_hints(&state, &PodCpus::default(), &demand(&pod), &pod.containers[0]);
        let allocate = |affinity| {
            policy.allocate(&state, &PodCpus::default(), affinity, &demand(&pod), &pod.containers[0])
        };
        match &rows[0].1 {
            ResourceHints::Family(family) => {
                for hint in family.list() {
                    let mask = hint.mask.unwrap();
                    let cpus = allocate(Some(mask)).unwrap().cpus.unwrap();
                    for cpu in &cpus {
                        let place = policy.topology().cpu_info(cpu).unwrap();
                        prop_assert!(mask.contains(place.node));
                    }
                }
            }
            _ => prop_assert!(allocate(None).is_err()),
        }
    }
}
