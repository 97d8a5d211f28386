use proptest::prelude::*;

use super::*;
use crate::koordinator::cpu_topology::tests::machine;

fn set(text: &str) -> CpuSet {
    text.parse().expect("CPUs")
}

/// The CPUs after one more round on this machine with this load of others.
struct Scene {
    topology: KoordinatorTopology,
    pool: CpuSet,
    lent: CpuSet,
    by_node: BTreeMap<NodeId, i64>,
    suppression: Suppression,
}

impl Scene {
    /// Two NUMA nodes with four cores of two threads each: 0-7 and 8-15. CPU 0 to 3 are an LSR pod's, 14 and 15 an LSE pod's.
    fn new() -> Self {
        Self {
            topology: machine(2, 1, 4, 2),
            pool: set("0-13"),
            lent: set("0-3"),
            by_node: BTreeMap::new(),
            suppression: Suppression::default(),
        }
    }

    fn round(&mut self, threshold: u32, used: i64) -> String {
        let load = SuppressionLoad {
            pool: &self.pool,
            lent: &self.lent,
            used_by_others: used,
            used_by_node: &self.by_node,
        };
        let cpus = self.suppression.step(&self.topology, threshold, &load);
        cpus.to_string()
    }
}

#[test]
fn best_effort_pods_have_the_share_that_others_leave_at_least_a_core_and_at_most_the_pool() {
    for (threshold, used, expected) in [
        (100, 0, "0-13"),
        (100, 2000, "0-13"),
        // Whole cores: of nine CPUs eight are used. The lent ones go first.
        (100, 6500, "4-11"),
        (65, 0, "4-13"),
        (65, 6000, "4-7"),
        (65, 10_400, "4-5"),
        (65, 100_000, "4-5"),
        (0, 0, "4-5"),
    ] {
        let cpus = Scene::new().round(threshold, used);
        assert_eq!(cpus, expected, "{threshold} %, {used} used");
    }
}

#[test]
fn fewer_cpus_apply_at_once_and_more_after_three_rounds_step_by_step() {
    let mut scene = Scene::new();
    let rounds = [
        (0, "0-13"),
        (12_000, "4-7"),
        (0, "4-7"),
        (0, "4-7"),
        (0, "4-9"),
        (0, "4-11"),
        // A load in between starts the wait anew.
        (9_000, "4-9"),
        (0, "4-9"),
        (0, "4-9"),
        (0, "4-11"),
        (0, "4-13"),
        (0, "0-1,4-13"),
        (0, "0-13"),
        (0, "0-13"),
    ];
    for (at, (used, expected)) in rounds.into_iter().enumerate() {
        assert_eq!(scene.round(100, used), expected, "round {at}");
    }
}

#[test]
fn the_cpus_of_lsr_pods_are_taken_back_first_and_then_those_of_busy_numa_nodes() {
    let mut scene = Scene::new();
    assert_eq!(scene.round(100, 0), "0-13");
    scene.by_node = BTreeMap::from([(NodeId::MIN, 6_000)]);
    assert_eq!(scene.round(100, 6_000), "4-13");
    assert_eq!(scene.round(100, 10_000), "8-13");
    // The load of NUMA nodes alone moves no pod.
    scene.by_node = BTreeMap::from([(NodeId::new(1).expect("small"), 6_000)]);
    assert_eq!(scene.round(100, 10_000), "8-13");
}

#[test]
fn cpus_that_leave_the_pool_are_given_up_at_once() {
    let mut scene = Scene::new();
    assert_eq!(scene.round(100, 8_000), "4-11");
    scene.pool = set("0-7");
    assert_eq!(scene.round(100, 8_000), "4-7");
    scene.pool = set("0-3");
    assert_eq!(scene.round(100, 8_000), "0-1", "a core at least");
    scene.pool = CpuSet::new();
    assert_eq!(scene.round(100, 8_000), "");
}

#[test]
fn fewer_cpus_are_some_of_those_before_though_another_smaller_core_would_fit() {
    let mut scene = Scene::new();
    // The pool has one CPU of some cores and two of others.
    scene.pool = set("0,2-5,8,11-12,14");
    scene.lent = set("2-3,8,11");
    let mut before = set(&scene.round(48, 1681));
    let mut shrunk = 0;
    for (threshold, used) in [(45, 0), (38, 0), (50, 0), (106, 9961)] {
        let after = set(&scene.round(threshold, used));
        let fewer = after.len() < before.len();
        assert!(!fewer || after.is_subset(&before), "{after} of {before}");
        shrunk += usize::from(fewer);
        before = after;
    }
    assert!(shrunk > 0);
}

proptest! {
    #[test]
    fn whatever_the_load_the_cpus_are_within_the_pool_and_the_share_and_return_when_it_ends(
        smt in 1_i64..3,
        pool_bits in any::<u16>(),
        lent_bits in any::<u16>(),
        loads in proptest::collection::vec((0_u32..120, -1000_i64..20_000), 1..20),
    ) {
        let topology = machine(2, 1, 8 / smt, smt);
        let of_bits = |bits: u16| -> CpuSet {
            let some = topology.all().iter().enumerate();
            some.filter(|(at, _)| bits >> at & 1 == 1).map(|(_, cpu)| cpu).collect()
        };
        let (pool, lent) = (of_bits(pool_bits), of_bits(lent_bits));
        let by_node = BTreeMap::new();
        let load = |used_by_others| SuppressionLoad {
            pool: &pool,
            lent: &lent,
            used_by_others,
            used_by_node: &by_node,
        };
        let mut suppression = Suppression::default();
        let per_core = usize::try_from(smt).expect("small");
        for (threshold, used) in loads {
            let before = suppression.cpus.clone();
            let cpus = suppression.step(&topology, threshold, &load(used));
            prop_assert!(cpus.is_subset(&pool));
            prop_assert_eq!(cpus.is_empty(), pool.is_empty());
            let share = allowed(&topology, threshold, used);
            prop_assert!(cpus.len() <= share.max(per_core), "{cpus} of {share}");
            let shrinks = before.as_ref().is_some_and(|before| cpus.len() < before.len());
            prop_assert!(!shrinks || before.is_some_and(|before| cpus.is_subset(&before)));
        }
        for _ in 0..32 {
            suppression.step(&topology, 100, &load(0));
        }
        prop_assert_eq!(suppression.cpus, Some(pool));
    }
}
