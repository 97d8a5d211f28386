//! Properties after any sequence of events on any machine, and the hints compared with their definition.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::hints::MemoryHintSearch;
use super::reuse::ReusableMemory;
use super::tests::{allocate, container, demand, hints, machine, node, pod, policy};
use super::*;
use crate::demand::{MemoryDemand, PodLevel};
use crate::fidelity::Fidelity;
use crate::hint::{Family, Hint, Preference, ResourceHints};
use crate::name::{ContainerName, ResourceName};
use crate::node_set::{NodeId, NodeSet};
use crate::pod::{Container, Pod, ResourceList};
use crate::quantity::Quantity;

/// An event on a node.
#[derive(Clone, Debug)]
enum MemoryEvent {
    /// One container of one of the pods is allocated.
    Allocate(usize, usize, Hint),
    /// One of the pods is allocated as a whole.
    AllocatePod(usize, Hint),
    /// One container of one of the pods is removed.
    Remove(usize, usize),
    /// The table is restored after a restart.
    Restart,
}

#[derive(Clone, Debug)]
struct MemoryHistory {
    machine: Machine,
    pods: Vec<Pod>,
    events: Vec<MemoryEvent>,
}

fn ids() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![0]),
        Just(vec![0, 1]),
        Just(vec![0, 1, 2]),
        Just(vec![0, 2, 5, 63]),
    ]
}

fn a_machine() -> impl Strategy<Value = Machine> {
    (
        ids(),
        prop::collection::vec((0_u64..12, prop::option::of(0_u64..3)), 4),
    )
        .prop_map(|(ids, sizes)| {
            let size = |(&id, &(memory, pages)): (&usize, &(u64, Option<u64>))| {
                (id, memory + 1024 * pages.unwrap_or(0) + 1, pages)
            };
            machine(&ids.iter().zip(&sizes).map(size).collect::<Vec<_>>())
        })
}

fn a_container(name: String) -> impl Strategy<Value = Container> {
    let pages = prop_oneof![3 => Just(None), 1 => (0_u64..3).prop_map(|n| Some(1024 * n))];
    (1_u64..14, pages).prop_map(move |(memory, pages)| container(&name, memory, pages))
}

fn a_pod(index: usize) -> impl Strategy<Value = Pod> {
    let containers = |prefix: &'static str, least: usize| {
        (least..3_usize).prop_flat_map(move |count| {
            (0..count)
                .map(|i| a_container(format!("{prefix}{i}")))
                .collect::<Vec<_>>()
        })
    };
    let pod_level = prop::option::weighted(0.3, 14_i64..30);
    let sidecar = any::<[bool; 2]>();
    let sharing = any::<[bool; 2]>();
    (
        containers("i", 0),
        containers("c", 1),
        sidecar,
        pod_level,
        sharing,
    )
        .prop_map(move |(mut init, mut apps, sidecar, whole, sharing)| {
            for (container, restartable) in init.iter_mut().zip(sidecar) {
                container.restartable = restartable;
            }
            let mut pod = pod(&format!("p{index}"), vec![], vec![]);
            if let Some(whole) = whole {
                for (container, _) in apps.iter_mut().zip(sharing).filter(|(_, shares)| *shares) {
                    container.requests.clear();
                    container.limits.clear();
                }
                let list = ResourceList::from([
                    ("cpu".into(), Quantity::from(4)),
                    (memory_resource(), Quantity::from(whole)),
                ]);
                pod.pod_requests = Some(list.clone());
                pod.pod_limits = Some(list);
            }
            pod.init_containers = init;
            pod.containers = apps;
            pod
        })
}

fn an_affinity() -> impl Strategy<Value = (Option<usize>, bool)> {
    (
        prop::option::weighted(0.6, 1_usize..16),
        prop::bool::weighted(0.2),
    )
}

fn a_history() -> impl Strategy<Value = MemoryHistory> {
    let pods = (a_pod(0), a_pod(1), a_pod(2)).prop_map(|(a, b, c)| vec![a, b, c]);
    let event = prop_oneof![
        6 => (0_usize..3, 0_usize..5, an_affinity()).prop_map(|(p, c, a)| (0, p, c, a)),
        2 => (0_usize..3, Just(0_usize), an_affinity()).prop_map(|(p, c, a)| (1, p, c, a)),
        3 => (0_usize..3, 0_usize..5, an_affinity()).prop_map(|(p, c, a)| (2, p, c, a)),
        1 => Just((3, 0, 0, (None, false))),
    ];
    (a_machine(), pods, prop::collection::vec(event, 1..20)).prop_map(|(machine, pods, events)| {
        let ids: Vec<NodeId> = machine.node_ids().iter().collect();
        let hint = |(choice, preferred): (Option<usize>, bool)| {
            let chosen = |bits: usize| -> NodeSet {
                let nodes = ids.iter().enumerate();
                nodes
                    .filter(|(place, _)| bits >> place & 1 == 1)
                    .map(|(_, &id)| id)
                    .collect()
            };
            let mask = choice.map(chosen).filter(|mask| !mask.is_empty());
            Hint { mask, preferred }
        };
        let event = |(kind, pod, container, affinity)| match kind {
            0 => MemoryEvent::Allocate(pod, container, hint(affinity)),
            1 => MemoryEvent::AllocatePod(pod, hint(affinity)),
            2 => MemoryEvent::Remove(pod, container),
            _ => MemoryEvent::Restart,
        };
        let events = events.into_iter().map(event).collect();
        MemoryHistory {
            machine,
            pods,
            events,
        }
    })
}

impl MemoryHistory {
    fn policy(&self, fidelity: Fidelity) -> StaticMemory {
        let lowest = self
            .machine
            .node_ids()
            .first()
            .expect("a machine has nodes");
        policy(&self.machine, lowest.index(), PodLevel::Managed, fidelity)
    }

    /// Runs the events and calls `check` with every table and the edits that led there.
    fn play(
        &self,
        policy: &StaticMemory,
        mut check: impl FnMut(&MemoryState, &MemoryState, &[MemoryEdit]) -> Result<(), TestCaseError>,
    ) -> Result<MemoryState, TestCaseError> {
        let mut state = policy.initial_state();
        for event in &self.events {
            let edits = self.edits(policy, &state, event);
            let before = state.clone();
            state.apply(&edits).expect("made for this table");
            check(&before, &state, &edits)?;
        }
        Ok(state)
    }

    fn edits(
        &self,
        policy: &StaticMemory,
        state: &MemoryState,
        event: &MemoryEvent,
    ) -> Vec<MemoryEdit> {
        let nth = |pod: &Pod, index: usize| -> Option<Container> {
            pod.all_containers().nth(index).cloned()
        };
        let granted = |grant: Result<MemoryGrant, MemoryError>| match grant {
            Ok(grant) => grant.edits,
            Err(_) => Vec::new(),
        };
        match *event {
            MemoryEvent::Allocate(index, place, affinity) => {
                let pod = &self.pods[index];
                match nth(pod, place) {
                    Some(container) => granted(allocate(policy, state, affinity, pod, &container)),
                    None => Vec::new(),
                }
            }
            MemoryEvent::AllocatePod(index, affinity) => {
                let pod = &self.pods[index];
                match pod.pod_requests.is_some() {
                    true => granted(policy.allocate_pod(state, affinity, &demand(policy, pod))),
                    false => Vec::new(),
                }
            }
            MemoryEvent::Remove(index, place) => match nth(&self.pods[index], place) {
                Some(container) => {
                    policy.remove_container(state, &self.pods[index].uid, &container.name)
                }
                None => Vec::new(),
            },
            MemoryEvent::Restart => policy.start(state).unwrap_or_default(),
        }
    }
}

/// The allocated bytes by group and type, according to the blocks.
fn allocated(state: &MemoryState) -> BTreeMap<(NodeSet, ResourceName), u64> {
    let mut sums = BTreeMap::new();
    for (pod, containers) in state.assignments() {
        let parts = containers.values().flatten();
        let blocks: Vec<&MemoryBlock> = match state.pod_blocks(pod) {
            Some(whole) => whole.iter().collect(),
            None => parts.collect(),
        };
        for block in blocks.into_iter().filter(|block| block.size > 0) {
            *sums
                .entry((block.nodes, block.resource.clone()))
                .or_insert(0) += block.size;
        }
    }
    sums
}

/// The allocated bytes by group and type, according to the nodes.
fn reserved(state: &MemoryState) -> BTreeMap<(NodeSet, ResourceName), u64> {
    let mut sums = BTreeMap::new();
    for node in state.nodes().values() {
        for (resource, amounts) in node
            .memory
            .iter()
            .filter(|(_, amounts)| amounts.reserved > 0)
        {
            *sums.entry((node.cells, resource.clone())).or_insert(0) += amounts.reserved;
        }
    }
    sums
}

/// `calculateHints` by definition: every mask, three rules.
fn by_definition(
    state: &MemoryState,
    requested: &MemoryDemand,
    reusable: &ReusableMemory,
) -> Vec<Hint> {
    let fits = |mask: NodeSet| {
        requested
            .iter()
            .all(|(resource, &amount)| state.allocatable(mask, resource) >= amount)
    };
    let all: Vec<NodeSet> = state
        .node_ids()
        .subsets_by_width()
        .filter(|&mask| fits(mask))
        .collect();
    let least = all.first().map_or(0, |mask| mask.len());
    let groups_allow = |mask: NodeSet| {
        mask.iter().all(|id| {
            let node = &state.nodes()[&id];
            match mask.len() {
                1 => node.cells.len() <= 1,
                _ => node.assignments == 0 || (node.cells.len() > 1 && node.cells == mask),
            }
        })
    };
    let is_free = |mask: NodeSet| {
        requested.iter().all(|(resource, &amount)| {
            state.free(mask, resource) + reusable.amount(mask, resource) >= amount
        })
    };
    all.into_iter()
        .filter(|&mask| groups_allow(mask) && is_free(mask))
        .map(|mask| Hint::on(mask, mask.len() == least))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nothing_is_allocated_twice_or_leaked(history in a_history()) {
        let policy = history.policy(Fidelity::Sound);
        history.play(&policy, |_, state, _| {
            for amounts in state.nodes().values().flat_map(|node| node.memory.values()) {
                prop_assert_eq!(amounts.free.checked_add(amounts.reserved), Some(amounts.allocatable));
            }
            prop_assert_eq!(allocated(state), reserved(state));
            Ok(())
        })?;
    }

    #[test]
    fn no_container_has_more_than_its_pod(history in a_history()) {
        let policy = history.policy(Fidelity::Sound);
        history.play(&policy, |_, state, _| {
            for (pod, whole) in state.pod_assignments() {
                for block in state.assignments()[pod].values().flatten() {
                    let holds = |own: &MemoryBlock| {
                        (&own.resource, own.nodes) == (&block.resource, block.nodes)
                            && own.size >= block.size
                    };
                    prop_assert!(whole.iter().any(holds), "{block:?} of {whole:?}");
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn groups_never_overlap(history in a_history()) {
        let policy = history.policy(Fidelity::Sound);
        history.play(&policy, |_, state, _| {
            for (&id, memory) in state.nodes() {
                prop_assert!(memory.cells.contains(id));
                prop_assert!(memory.assignments > 0 || memory.cells == NodeSet::single(id));
                for other in memory.cells {
                    prop_assert_eq!(state.nodes()[&other].cells, memory.cells);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_table_is_valid_at_the_next_start(history in a_history()) {
        let policy = history.policy(Fidelity::Sound);
        history.play(&policy, |_, state, _| {
            prop_assert_eq!(policy.start(state), Ok(Vec::new()));
            Ok(())
        })?;
    }

    #[test]
    fn edits_are_reverted_exactly(history in a_history(), exact in any::<bool>()) {
        let policy = history.policy(if exact { Fidelity::Exact } else { Fidelity::Sound });
        history.play(&policy, |before, after, edits| {
            let mut back = after.clone();
            prop_assert_eq!(back.revert(edits), Ok(()));
            prop_assert_eq!(&back, before);
            Ok(())
        })?;
    }

    #[test]
    fn a_released_pod_leaves_the_table_as_it_was(
        history in a_history(),
        pod in a_pod(7),
        affinity in an_affinity(),
        backwards in any::<bool>(),
    ) {
        let policy = history.policy(Fidelity::Sound);
        let before = history.play(&policy, |_, _, _| Ok(()))?;
        let lowest = history.machine.node_ids().first().map(NodeSet::single);
        let affinity = Hint { mask: affinity.0.and(lowest), preferred: affinity.1 };
        let mut state = before.clone();
        for container in pod.all_containers() {
            if let Ok(grant) = allocate(&policy, &state, affinity, &pod, container) {
                state.apply(&grant.edits).expect("made for this table");
            }
        }
        let mut names: Vec<ContainerName> =
            pod.all_containers().map(|container| container.name.clone()).collect();
        if backwards {
            names.reverse();
        }
        for name in &names {
            let edits = policy.remove_container(&state, &pod.uid, name);
            state.apply(&edits).expect("made for this table");
        }
        prop_assert_eq!(state, before);
    }

    #[test]
    fn hints_are_those_of_the_definition(history in a_history(), exact in any::<bool>(), bits in 0_u64..64) {
        let fidelity = if exact { Fidelity::Exact } else { Fidelity::Sound };
        let policy = history.policy(fidelity);
        let state = history.play(&policy, |_, _, _| Ok(()))?;
        for pod in &history.pods {
            for container in pod.all_containers() {
                let demand = demand(&policy, pod);
                let requested = demand.container_memory(container).expect("whole bytes");
                let own = PodMemory::before(&state, &demand, &container.name);
                let reusable = ReusableMemory::of_container(&state, &pod.uid, &own, fidelity);
                let search = MemoryHintSearch { state: &state, requested: &requested, reusable: reusable.clone() };
                let family = search.family();
                let list = family.as_ref().map_or_else(Vec::new, Family::list);
                let expected = match requested.is_empty() {
                    true => Vec::new(),
                    false => by_definition(&state, &requested, &reusable),
                };
                prop_assert_eq!(&list, &expected);

                let around = NodeSet::from_bits(bits) & state.node_ids();
                let best = expected.into_iter()
                    .filter(|hint| hint.mask.is_some_and(|mask| around.is_subset(mask)))
                    .min_by_key(|hint| hint.mask.map(|mask| (!hint.preferred, mask.len(), mask)));
                prop_assert_eq!(search.best_hint(around), best);
            }
        }
    }
}

#[test]
fn sixty_four_nodes_are_answered_without_listing_masks() {
    let nodes: Vec<(usize, u64, Option<u64>)> = (0..64)
        .map(|id| (id, 101 + 1024 * (id as u64 % 3), Some(id as u64 % 3)))
        .collect();
    let machine = machine(&nodes);
    let policy = policy(&machine, 0, PodLevel::Ignored, Fidelity::Sound);
    let state = policy.initial_state();
    let wide = pod("p", vec![], vec![container("c", 2000, Some(1024 * 30))]);
    let hints = hints(&policy, &state, &wide, &wide.containers[0]);
    let [
        (_, ResourceHints::Family(pages)),
        (_, ResourceHints::Family(memory)),
    ] = hints.hints.rows.as_slice()
    else {
        panic!("two types of memory");
    };
    assert_eq!(pages, memory);
    assert_eq!(memory.preference, Preference::Width(20));
    let grant = allocate(&policy, &state, Hint::ANY, &wide, &wide.containers[0])
        .expect("half the machine is enough");
    let placed = grant.placed.and_then(|hint| hint.mask).expect("placed");
    assert_eq!(placed.len(), 20);
    assert!(!placed.contains(node(63)));
}
