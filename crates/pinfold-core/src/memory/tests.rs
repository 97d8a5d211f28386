//! Tables for the rules of the memory manager. Amounts are bytes, small enough to count on fingers.

use std::collections::BTreeMap;

use super::*;
use crate::demand::NotWholeBytes;
use crate::hint::ResourceHints;
use crate::machine::{HugePages, MachineParts, NumaNode};
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};
use crate::quantity::Quantity;

pub(super) fn node(id: usize) -> NodeId {
    NodeId::new(i64::try_from(id).expect("small")).expect("below 64")
}

pub(super) fn set(ids: &[usize]) -> NodeSet {
    ids.iter().map(|&id| node(id)).collect()
}

/// A machine from the memory of its nodes in bytes, and how many huge pages of 1 KiB each has.
pub(super) fn machine(nodes: &[(usize, u64, Option<u64>)]) -> Machine {
    let node = |&(id, memory, pages): &(usize, u64, Option<u64>)| NumaNode {
        id: node(id),
        memory,
        hugepages: pages
            .map(|count| HugePages { size_kib: 1, count })
            .into_iter()
            .collect(),
        distances: Vec::new(),
        cores: Vec::new(),
    };
    Machine::new(MachineParts {
        nodes: nodes.iter().map(node).collect(),
        num_cpus: 1,
        num_sockets: 1,
        ..MachineParts::default()
    })
    .expect("a machine")
}

/// The policy for a machine that keeps one byte back on `reserved_on`.
pub(super) fn policy(
    machine: &Machine,
    reserved_on: usize,
    pod_level: PodLevel,
    fidelity: Fidelity,
) -> StaticMemory {
    let one = BTreeMap::from([(memory_resource(), 1)]);
    let reserved = SystemReserved::from_bytes(BTreeMap::from([(node(reserved_on), one)]));
    StaticMemory::new(machine, &reserved, pod_level, fidelity).expect("some memory is reserved")
}

fn amounts(memory: u64, pages: Option<u64>) -> ResourceList {
    let quantity = |value: u64| Quantity::from(i64::try_from(value).expect("small"));
    let mut list = ResourceList::from([
        ("cpu".into(), Quantity::from(1)),
        ("memory".into(), quantity(memory)),
    ]);
    if let Some(pages) = pages {
        list.insert(hugepages_resource(1), quantity(pages));
    }
    list
}

/// A container of a Guaranteed pod.
pub(super) fn container(name: &str, memory: u64, pages: Option<u64>) -> Container {
    Container {
        name: name.into(),
        restartable: false,
        requests: amounts(memory, pages),
        limits: amounts(memory, pages),
    }
}

pub(super) fn pod(uid: &str, init: Vec<Container>, containers: Vec<Container>) -> Pod {
    Pod {
        uid: uid.into(),
        name: String::new(),
        init_containers: init,
        containers,
        pod_requests: None,
        pod_limits: None,
    }
}

const FREE_CHOICE: Hint = Hint {
    mask: None,
    preferred: false,
};

/// A node of a cluster for tests: the policy and its table.
struct Bench {
    policy: StaticMemory,
    state: MemoryState,
}

impl Bench {
    /// Nodes with so much memory each; node 0 has one byte more, which is kept for the system.
    fn new(memory: &[u64], fidelity: Fidelity) -> Self {
        let size = |(id, &memory): (usize, &u64)| (id, memory + u64::from(id == 0), None);
        let nodes: Vec<_> = memory.iter().enumerate().map(size).collect();
        Self::on(&machine(&nodes), PodLevel::Ignored, fidelity)
    }

    fn on(machine: &Machine, pod_level: PodLevel, fidelity: Fidelity) -> Self {
        let policy = policy(machine, 0, pod_level, fidelity);
        let state = policy.initial_state();
        Self { policy, state }
    }

    fn allocate(&mut self, pod: &Pod, name: &str, affinity: Hint) -> Result<NodeSet, MemoryError> {
        let container = pod.container(&name.into()).expect("a container of the pod");
        let grant = self
            .policy
            .allocate(&self.state, affinity, pod, container)?;
        self.state.apply(&grant.edits).expect("made for this table");
        Ok(self.state.nodes_of(&pod.uid, &name.into()))
    }

    fn on_nodes(&mut self, pod: &Pod, name: &str, ids: &[usize]) -> Result<NodeSet, MemoryError> {
        self.allocate(pod, name, Hint::on(set(ids), false))
    }

    /// Gives a pod of one container so much memory on exactly these nodes.
    fn fill(&mut self, uid: &str, memory: u64, ids: &[usize]) {
        let pod = pod(uid, vec![], vec![container("c", memory, None)]);
        assert_eq!(self.on_nodes(&pod, "c", ids), Ok(set(ids)));
    }

    fn remove(&mut self, pod: &str, name: &str) {
        let edits = self
            .policy
            .remove_container(&self.state, &pod.into(), &name.into());
        self.state.apply(&edits).expect("made for this table");
    }

    fn reserved(&self) -> Vec<u64> {
        let nodes = self.state.nodes().values();
        nodes
            .map(|node| node.amounts(&memory_resource()).reserved)
            .collect()
    }

    fn size(&self, pod: &str, name: &str) -> u64 {
        let blocks = self.state.blocks(&pod.into(), &name.into());
        blocks
            .unwrap_or_default()
            .iter()
            .map(|block| block.size)
            .sum()
    }
}

fn masks(hints: &MemoryHints) -> Vec<(Vec<u32>, bool)> {
    let [(_, ResourceHints::Family(family))] = hints.hints.rows.as_slice() else {
        return Vec::new();
    };
    let list = family.list().into_iter();
    list.map(|hint| {
        let mask = hint.mask.expect("members have masks");
        (mask.iter().map(NodeId::get).collect(), hint.preferred)
    })
    .collect()
}

#[test]
fn groups_decide_which_masks_are_hints() {
    // Node 0 is used alone, 1 and 2 as a group, 3 and 4 not at all.
    let mut bench = Bench::new(&[10, 10, 10, 10, 10], Fidelity::Sound);
    bench.fill("alone", 2, &[0]);
    bench.fill("wide", 12, &[1, 2]);
    let hints = |memory: u64| {
        let asking = pod("asking", vec![], vec![container("c", memory, None)]);
        let found = bench
            .policy
            .container_hints(&bench.state, &asking, &asking.containers[0]);
        masks(&found)
    };
    let one = vec![
        (vec![0], true),
        (vec![3], true),
        (vec![4], true),
        (vec![1, 2], false),
        (vec![3, 4], false),
    ];
    assert_eq!(hints(8), one);
    assert_eq!(
        hints(9),
        [(vec![3], true), (vec![4], true), (vec![3, 4], false)]
    );
    assert_eq!(hints(20), [(vec![3, 4], true)]);
    assert_eq!(hints(21), []);
}

#[test]
fn without_a_choice_the_lowest_of_the_narrowest_masks_is_taken() {
    let cases: [(&[u64], u64, &[usize]); 4] = [
        (&[4, 9, 9], 8, &[1]),
        (&[4, 9, 9], 13, &[0, 1]),
        (&[4, 9, 9], 14, &[1, 2]),
        (&[4, 9, 9], 20, &[0, 1, 2]),
    ];
    for (memory, asked, expected) in cases {
        let mut bench = Bench::new(memory, Fidelity::Sound);
        let asking = pod("p", vec![], vec![container("c", asked, None)]);
        assert_eq!(
            bench.allocate(&asking, "c", FREE_CHOICE),
            Ok(set(expected)),
            "{asked}"
        );
    }
}

#[test]
fn a_choice_that_is_too_small_is_widened_to_the_narrowest_mask_around_it() {
    let mut bench = Bench::new(&[9, 4, 9, 9], Fidelity::Sound);
    let asking = pod("p", vec![], vec![container("c", 12, None)]);
    assert_eq!(bench.on_nodes(&asking, "c", &[2]), Ok(set(&[0, 2])));
    assert_eq!(bench.reserved(), [9, 0, 3, 0]);
}

#[test]
fn every_refusal_says_what_the_kubelet_says() {
    let asking = |memory| pod("p", vec![], vec![container("c", memory, None)]);
    let on = |ids: &[usize], preferred| Hint::on(set(ids), preferred);
    let cases = [
        (
            asking(21),
            FREE_CHOICE,
            "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
        ),
        (
            asking(9),
            Hint::ANY,
            "failed to find the default preferred hint",
        ),
        (
            asking(21),
            on(&[0], false),
            "failed to find NUMA nodes to extend the current topology hint",
        ),
        (
            asking(9),
            on(&[1], true),
            "failed to find the extended preferred hint",
        ),
        (
            asking(2),
            on(&[0, 1], false),
            "preferred hint violates NUMA node allocation",
        ),
    ];
    for (pod, affinity, expected) in cases {
        // Nothing but the pair {1, 2} holds 9, though one empty node would.
        let mut bench = Bench::new(&[10, 10, 10], Fidelity::Sound);
        bench.fill("low", 2, &[0]);
        bench.fill("wide", 8, &[1, 2]);
        let before = bench.state.clone();
        let error = bench.allocate(&pod, "c", affinity).expect_err("refused");
        assert_eq!(error.to_string(), format!("[memorymanager] {expected}"));
        assert_eq!(bench.state, before);
    }
}

#[test]
fn what_init_containers_leave_is_taken_over_on_the_same_nodes_only() {
    let init = vec![container("i", 6, None)];
    let asking = pod(
        "p",
        init,
        vec![container("same", 8, None), container("other", 3, None)],
    );
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.on_nodes(&asking, "i", &[0]).expect("free");
        bench
            .on_nodes(&asking, "same", &[0])
            .expect("6 left and 4 free");
        assert_eq!(bench.reserved(), [8, 0]);
        assert_eq!((bench.size("p", "i"), bench.size("p", "same")), (0, 8));

        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.on_nodes(&asking, "i", &[0]).expect("free");
        bench.on_nodes(&asking, "other", &[1]).expect("free");
        assert_eq!(bench.reserved(), [6, 3]);
        assert_eq!((bench.size("p", "i"), bench.size("p", "other")), (6, 3));
    }
}

#[test]
fn a_sidecar_takes_over_but_leaves_nothing() {
    let mut sidecar = container("s", 4, None);
    sidecar.restartable = true;
    let asking = pod(
        "p",
        vec![container("i", 6, None), sidecar],
        vec![container("c", 5, None)],
    );
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut bench = Bench::new(&[10], fidelity);
        for name in ["i", "s", "c"] {
            bench.on_nodes(&asking, name, &[0]).expect("fits");
        }
        // The sidecar takes 4 of the 6 over, the app container the other 2.
        assert_eq!(bench.reserved(), [9]);
        assert_eq!(bench.size("p", "i"), 0);
    }
}

#[test]
fn memory_of_a_removed_init_container_is_not_handed_out_unbooked() {
    let asking = pod(
        "p",
        vec![container("i", 6, None)],
        vec![container("c", 5, None)],
    );
    for (fidelity, expected) in [(Fidelity::Exact, 0), (Fidelity::Sound, 5)] {
        let mut bench = Bench::new(&[10], fidelity);
        bench.on_nodes(&asking, "i", &[0]).expect("free");
        bench.remove("p", "i");
        bench.on_nodes(&asking, "c", &[0]).expect("free");
        assert_eq!(bench.reserved(), [expected], "{fidelity:?}");
    }
}

#[test]
fn an_init_container_that_ended_gets_no_memory_after_a_restart() {
    let asking = pod(
        "p",
        vec![container("i", 6, None)],
        vec![container("c", 5, None)],
    );
    for (fidelity, expected) in [(Fidelity::Exact, 11), (Fidelity::Sound, 5)] {
        let mut bench = Bench::new(&[20], fidelity);
        bench.on_nodes(&asking, "i", &[0]).expect("free");
        bench.on_nodes(&asking, "c", &[0]).expect("free");
        bench.remove("p", "i");
        let edits = bench
            .policy
            .start(&bench.state)
            .expect("a table of its own");
        bench.state.apply(&edits).expect("made for this table");
        for name in ["i", "c"] {
            bench.on_nodes(&asking, name, &[0]).expect("free");
        }
        assert_eq!(bench.reserved(), [expected], "{fidelity:?}");
    }
}

#[test]
fn one_node_of_a_group_is_not_granted_alone() {
    let asking = pod("p", vec![], vec![container("c", 3, None)]);
    for (fidelity, expected) in [
        (Fidelity::Exact, set(&[1])),
        (Fidelity::Sound, set(&[0, 1])),
    ] {
        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.fill("wide", 12, &[0, 1]);
        assert_eq!(
            bench.on_nodes(&asking, "c", &[1]),
            Ok(expected),
            "{fidelity:?}"
        );
    }
}

#[test]
fn a_leaving_holder_frees_the_nodes_of_the_group_that_were_filled_last() {
    for (fidelity, expected) in [(Fidelity::Exact, [7, 5]), (Fidelity::Sound, [10, 2])] {
        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.fill("first", 12, &[0, 1]);
        bench.fill("second", 3, &[0, 1]);
        bench.remove("second", "c");
        assert_eq!(bench.reserved(), expected, "{fidelity:?}");
        bench.remove("first", "c");
        assert_eq!(bench.state, bench.policy.initial_state());
    }
}

#[test]
fn a_node_without_the_page_size_adds_nothing() {
    let machine = machine(&[(0, 11, None), (3, 10 + 2048, Some(2))]);
    let mut bench = Bench::on(&machine, PodLevel::Ignored, Fidelity::Sound);
    let asking = pod("p", vec![], vec![container("c", 12, Some(2048))]);
    assert_eq!(bench.allocate(&asking, "c", FREE_CHOICE), Ok(set(&[0, 3])));
    assert_eq!(bench.policy.start(&bench.state), Ok(Vec::new()));
    let too_many = pod("q", vec![], vec![container("c", 1, Some(4096))]);
    let refused = bench.allocate(&too_many, "c", FREE_CHOICE);
    assert!(matches!(refused, Err(MemoryError::NoNodes { .. })));
}

#[test]
fn more_reserved_than_there_is_leaves_nothing() {
    let machine = machine(&[(0, 0, None), (1, 10, None)]);
    for (fidelity, expected) in [(Fidelity::Exact, u64::MAX), (Fidelity::Sound, 0)] {
        let bench = Bench::on(&machine, PodLevel::Ignored, fidelity);
        assert_eq!(bench.state.free(set(&[0]), &memory_resource()), expected);
    }
}

#[test]
fn nodes_the_machine_lacks_are_refused_not_ignored() {
    let mut bench = Bench::new(&[10], Fidelity::Exact);
    let asking = pod("p", vec![], vec![container("c", 3, None)]);
    let unknown = set(&[7]);
    assert_eq!(
        bench.on_nodes(&asking, "c", &[0, 7]),
        Err(MemoryError::UnknownNodes { unknown })
    );
}

#[test]
fn only_guaranteed_pods_are_managed() {
    let mut burstable = pod("p", vec![], vec![container("c", 3, None)]);
    burstable.containers[0].limits.clear();
    let mut bench = Bench::new(&[10], Fidelity::Sound);
    assert_eq!(
        bench.allocate(&burstable, "c", Hint::ANY),
        Ok(NodeSet::EMPTY)
    );
    let hints = bench.policy.pod_hints(&bench.state, &burstable);
    assert_eq!(hints, MemoryHints::unmanaged());
}

#[test]
fn a_restarted_container_asks_for_the_nodes_it_has() {
    let asking = pod("p", vec![], vec![container("c", 12, None)]);
    let mut bench = Bench::new(&[10, 10], Fidelity::Sound);
    bench.allocate(&asking, "c", FREE_CHOICE).expect("free");
    let hints = |pod: &Pod| {
        bench
            .policy
            .container_hints(&bench.state, pod, &pod.containers[0])
    };
    assert_eq!(masks(&hints(&asking)), [(vec![0, 1], true)]);
    let resized = pod("p", vec![], vec![container("c", 13, None)]);
    assert_eq!(hints(&resized).basis, MemoryBasis::HeldDiffers);
}

#[test]
fn a_table_that_no_longer_fits_the_machine_is_refused() {
    let mut bench = Bench::new(&[10, 10], Fidelity::Sound);
    bench.fill("p", 12, &[0, 1]);
    let says = |memory: &[u64]| {
        let other = Bench::new(memory, Fidelity::Sound).policy;
        other.start(&bench.state).map_err(|error| error.to_string())
    };
    let gone = "[memorymanager] (pod: p, container: c) the memory assignment uses the NUMA that does not exist";
    let differs = "[memorymanager] the expected machine state is different from the real one";
    assert_eq!(says(&[10, 10]), Ok(Vec::new()));
    assert_eq!(says(&[10]), Err(gone.to_owned()));
    assert_eq!(says(&[10, 11]), Err(differs.to_owned()));
    assert_eq!(says(&[10, 10, 10]), Err(differs.to_owned()));

    let homeless = MemoryState::new(
        BTreeMap::new(),
        bench.state.assignments().clone(),
        BTreeMap::new(),
    );
    assert_eq!(
        bench.policy.start(&homeless),
        Err(MemoryStartError::NoTable)
    );
    let empty = MemoryState::default();
    let mut fresh = empty.clone();
    fresh
        .apply(&bench.policy.start(&empty).expect("nothing to check"))
        .expect("made for it");
    assert_eq!(fresh, bench.policy.initial_state());
}

#[test]
fn reservations_must_name_known_nodes_and_add_up() {
    let machine = machine(&[(0, 8 << 30, Some(1)), (5, 8 << 30, Some(1))]);
    let list = |rows: &[(&str, &str)]| -> ResourceList {
        let row = |&(name, text): &(&str, &str)| {
            (ResourceName::from(name), text.parse().expect("a quantity"))
        };
        rows.iter().map(row).collect()
    };
    let on = |numa_node, rows| MemoryReservation {
        numa_node,
        limits: list(rows),
    };
    let says = |node: &[(&str, &str)], rows: &[MemoryReservation]| {
        let made = MemoryPolicy::new(
            "Static",
            &machine,
            &list(node),
            rows,
            PodLevel::Ignored,
            Fidelity::Sound,
        );
        made.map(|policy| policy.name())
            .map_err(|error| error.to_string())
    };
    let half = [("memory", "512Mi")];
    assert_eq!(
        says(
            &[("memory", "1Gi"), ("cpu", "2")],
            &[on(0, &half), on(5, &half)]
        ),
        Ok("Static")
    );
    let refusals: [(&[(&str, &str)], &[MemoryReservation], &str); 6] = [
        (
            &[],
            &[on(1, &half)],
            "the reserved memory configuration references a NUMA node 1 that does not exist on this machine",
        ),
        (
            &[],
            &[on(-1, &half)],
            "the reserved memory configuration references a NUMA node -1 that does not exist on this machine",
        ),
        (
            &[("memory", "1Gi")],
            &[on(0, &half)],
            "the total amount \"512Mi\" of type \"memory\" is not equal to the value \"1Gi\" determined by Node Allocatable feature",
        ),
        (
            &[("hugepages-1Ki", "1Ki"), ("memory", "512Mi")],
            &[on(0, &half)],
            "the total amount \"0\" of type \"hugepages-1Ki\" is not equal to the value \"1Ki\" determined by Node Allocatable feature",
        ),
        (
            &[("memory", "500m")],
            &[on(0, &[("memory", "500m")])],
            "could not covert a variable of type Quantity to int64",
        ),
        (
            &[],
            &[],
            "[memorymanager] you should specify the system reserved memory",
        ),
    ];
    for (node, rows, expected) in refusals {
        assert_eq!(says(node, rows), Err(expected.to_owned()));
    }
}

#[test]
fn huge_pages_are_named_by_their_size_and_are_not_memory_any_more() {
    let names = [
        (4, "hugepages-4Ki"),
        (2048, "hugepages-2Mi"),
        (1 << 20, "hugepages-1Gi"),
    ];
    for (size_kib, expected) in names {
        assert_eq!(hugepages_resource(size_kib).as_str(), expected);
    }
    let bench = Bench::on(
        &machine(&[(0, 5000, Some(3))]),
        PodLevel::Ignored,
        Fidelity::Sound,
    );
    assert_eq!(bench.state.free(set(&[0]), &hugepages_resource(1)), 3072);
    assert_eq!(
        bench.state.free(set(&[0]), &memory_resource()),
        5000 - 3072 - 1
    );
}

/// A pod of 10 bytes as a whole: a sidecar of 2, an app container of 3, and one of each kind that shares.
fn pod_level_pod() -> Pod {
    let sharing = |name: &str| Container {
        requests: ResourceList::new(),
        limits: ResourceList::new(),
        ..container(name, 0, None)
    };
    let mut sidecar = container("sidecar", 2, None);
    sidecar.restartable = true;
    let init = vec![sidecar, sharing("init")];
    let mut pod = pod(
        "p",
        init,
        vec![container("own", 3, None), sharing("shared")],
    );
    pod.pod_requests = Some(amounts(10, None));
    pod.pod_limits = Some(amounts(10, None));
    pod
}

#[test]
fn a_pod_booked_as_a_whole_is_divided_and_given_back_with_its_last_container() {
    let machine = machine(&[(0, 21, None)]);
    let mut bench = Bench::on(&machine, PodLevel::Managed, Fidelity::Sound);
    let pod = pod_level_pod();
    let grant = bench
        .policy
        .allocate_pod(&bench.state, Hint::ANY, &pod)
        .expect("fits");
    bench
        .state
        .apply(&grant.edits)
        .expect("made for this table");
    assert_eq!(bench.reserved(), [10]);
    let names = ["sidecar", "init", "own", "shared"];
    assert_eq!(names.map(|name| bench.size("p", name)), [2, 8, 3, 5]);
    assert_eq!(bench.policy.start(&bench.state), Ok(Vec::new()));
    for (name, left) in [("init", 10), ("own", 10), ("sidecar", 10), ("shared", 0)] {
        bench.remove("p", name);
        assert_eq!(bench.reserved(), [left]);
    }
    assert_eq!(bench.state, bench.policy.initial_state());
}

#[test]
fn a_pod_booked_as_a_whole_is_booked_once() {
    let machine = machine(&[(0, 41, None)]);
    for (fidelity, expected) in [(Fidelity::Exact, 20), (Fidelity::Sound, 10)] {
        let mut bench = Bench::on(&machine, PodLevel::Managed, fidelity);
        for _ in 0..2 {
            let grant = bench
                .policy
                .allocate_pod(&bench.state, Hint::ANY, &pod_level_pod());
            bench
                .state
                .apply(&grant.expect("fits").edits)
                .expect("made for this table");
        }
        assert_eq!(bench.reserved(), [expected], "{fidelity:?}");
    }
}

#[test]
fn pages_that_only_a_container_names_are_booked_too() {
    let machine = machine(&[(0, 21 + 2048, Some(2))]);
    let mut pod = pod_level_pod();
    pod.containers[0] = container("own", 3, Some(1024));
    for (fidelity, booked, shared) in [
        (Fidelity::Exact, 0, 0_u64.wrapping_sub(1024)),
        (Fidelity::Sound, 1024, 0),
    ] {
        let mut bench = Bench::on(&machine, PodLevel::Managed, fidelity);
        let grant = bench
            .policy
            .allocate_pod(&bench.state, Hint::ANY, &pod)
            .expect("fits");
        bench
            .state
            .apply(&grant.edits)
            .expect("made for this table");
        let pages = bench
            .state
            .sum(set(&[0]), &hugepages_resource(1), |amounts| {
                amounts.reserved
            });
        assert_eq!(pages, booked, "{fidelity:?}");
        let blocks = bench
            .state
            .blocks(&pod.uid, &"shared".into())
            .expect("divided");
        let of_pages = blocks
            .iter()
            .filter(|block| block.resource == hugepages_resource(1));
        assert_eq!(
            of_pages.map(|block| block.size).sum::<u64>(),
            shared,
            "{fidelity:?}"
        );
    }
}

#[test]
fn containers_that_share_need_a_pool_that_is_not_empty() {
    let machine = machine(&[(0, 41, None)]);
    let bench = Bench::on(&machine, PodLevel::Managed, Fidelity::Sound);
    let refused = |pod: &Pod| {
        let hints = bench.policy.pod_hints(&bench.state, pod);
        let cannot = (memory_resource(), ResourceHints::Cannot);
        assert_eq!(hints.hints.rows.as_slice(), [cannot]);
        let grant = bench.policy.allocate_pod(&bench.state, Hint::ANY, pod);
        grant.expect_err("refused").to_string()
    };
    let mut app = pod_level_pod();
    app.containers[0] = container("own", 8, None);
    assert_eq!(
        refused(&app),
        "pod rejected, sum of exclusive container memory requests equals pod budget, leaving no memory for shared containers"
    );
    let mut init = pod_level_pod();
    init.init_containers[0] = Container {
        restartable: true,
        ..container("sidecar", 10, None)
    };
    assert_eq!(
        refused(&init),
        "pod rejected, pod has shared init containers but no memory available for them"
    );
}

#[test]
fn a_container_without_memory_of_its_own_is_never_a_reason_to_refuse() {
    let machine = machine(&[(0, 21, None), (1, 20, None)]);
    let pod = pod_level_pod();
    for (fidelity, fits) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
        let mut bench = Bench::on(&machine, PodLevel::Managed, fidelity);
        bench.fill("other", 1, &[0]);
        for affinity in [FREE_CHOICE, Hint::on(set(&[0, 1]), true)] {
            let placed = bench.allocate(&pod, "shared", affinity);
            assert_eq!(placed.is_ok(), fits, "{fidelity:?} {affinity:?}");
        }
    }
}

#[test]
fn an_amount_of_half_a_byte_is_refused() {
    let mut asking = pod("p", vec![], vec![container("c", 3, None)]);
    let half: Quantity = "2500m".parse().expect("a quantity");
    asking.containers[0]
        .requests
        .insert(memory_resource(), half);
    asking.containers[0].limits.insert(memory_resource(), half);
    let mut bench = Bench::new(&[10], Fidelity::Sound);
    let refused = bench.allocate(&asking, "c", FREE_CHOICE);
    assert_eq!(refused, Err(MemoryError::NotWholeBytes(NotWholeBytes)));
}

#[test]
fn an_edit_meets_only_the_table_it_was_made_for() {
    let mut bench = Bench::new(&[10, 10], Fidelity::Sound);
    let asking = pod("p", vec![], vec![container("c", 3, None)]);
    let grant = bench
        .policy
        .allocate(&bench.state, FREE_CHOICE, &asking, &asking.containers[0])
        .expect("free");
    bench.fill("faster", 1, &[0]);
    let before = bench.state.clone();
    let stale = bench
        .state
        .apply(&grant.edits)
        .expect_err("node 0 changed meanwhile");
    assert_eq!(stale.entry, "NUMA node 0");
    assert_eq!(bench.state, before);
}

#[test]
fn edits_and_tables_survive_being_written_down() {
    let mut bench = Bench::new(&[10, 10], Fidelity::Exact);
    let asking = pod("p", vec![container("i", 3, None)], vec![]);
    let grant = bench
        .policy
        .allocate(
            &bench.state,
            FREE_CHOICE,
            &asking,
            &asking.init_containers[0],
        )
        .expect("free");
    let text = serde_json::to_string(&grant.edits).expect("plain data");
    let read: Vec<MemoryEdit> = serde_json::from_str(&text).expect("just written");
    assert_eq!(read, grant.edits);
    bench.state.apply(&read).expect("made for this table");
    let text = serde_json::to_string(&bench.state).expect("plain data");
    assert_eq!(
        serde_json::from_str::<MemoryState>(&text).expect("just written"),
        bench.state
    );
}
