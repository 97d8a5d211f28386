//! What holds after any history of pods and nodes that come and go.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Place(u32),
    PlaceOn(u32, usize),
    Gang(Vec<u32>),
    Remove(usize),
    /// A node starts anew.
    Renew(usize),
    /// One that may be placed already is asked again.
    Ask(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..6).prop_map(Step::Place),
        2 => (1_u32..6, 0_usize..8).prop_map(|(size, node)| Step::PlaceOn(size, node)),
        2 => proptest::collection::vec(1_u32..6, 1..8).prop_map(Step::Gang),
        3 => any::<usize>().prop_map(Step::Remove),
        1 => (0_usize..8).prop_map(Step::Renew),
        2 => (any::<usize>(), 1_u32..6).prop_map(|(pod, size)| Step::Ask(pod, size)),
    ]
}

const NODES: [&str; 7] = ["k-1", "k-2", "o-1", "o-2", "o-3", "v-1", "x"];

/// CPUs that are reserved, or held by somebody who never leaves.
const OFF_LIMITS: [(&str, &str); 5] = [
    ("k-1", "0"),
    ("k-2", "0"),
    ("o-1", "0"),
    ("o-3", "1,4"),
    ("v-1", "7"),
];

fn member(name: &str) -> Member {
    match name {
        "k-1" => kubelet("single-numa-node"),
        "k-2" => kubelet("best-effort"),
        "o-1" => koordinator(4, Some(NumaPolicy::SingleNumaNode), "0", Args::default()),
        "o-2" => koordinator(4, Some(NumaPolicy::BestEffort), "", Args::default()),
        "o-3" => koordinator(3, None, "1,4", Args::default()),
        "v-1" => volcano("0-6"),
        _ => Member::unknown(room(3)),
    }
}

/// A cluster and, beside it, who was given which CPUs.
struct History {
    cluster: Cluster,
    placed: BTreeMap<String, Placement>,
    next: usize,
}

impl History {
    fn new() -> Self {
        let mut cluster = Cluster::new();
        for name in NODES {
            cluster.insert(name.into(), member(name));
        }
        Self {
            cluster,
            placed: BTreeMap::new(),
            next: 0,
        }
    }

    fn ask(&mut self, size: u32) -> PodAsk {
        self.next += 1;
        ask(&format!("pod-{}", self.next), size)
    }

    fn remember(&mut self, placements: impl IntoIterator<Item = Placement>) {
        for placement in placements {
            self.placed.insert(placement.pod.to_string(), placement);
        }
    }

    fn pick(&self, at: usize) -> Option<String> {
        let count = self.placed.len();
        let at = at.checked_rem(count)?;
        self.placed.keys().nth(at).cloned()
    }

    fn go(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Place(size) => {
                let ask = self.ask(*size);
                let before = self.cluster.clone();
                let best = (self.cluster.rank(&ask).first()).map(|ranked| ranked.node.clone());
                let placed = self.cluster.place(&ask);
                prop_assert_eq!(
                    placed.as_ref().ok().map(|placed| &placed.node),
                    best.as_ref()
                );
                prop_assert!(placed.is_ok() || self.cluster == before);
                self.remember(placed);
            }
            Step::PlaceOn(size, node) => {
                let ask = self.ask(*size);
                let name = NODES[node % NODES.len()].into();
                let verdict = self.cluster.ask(&ask, &name);
                let placed = self.cluster.place_on(&ask, &name);
                prop_assert_eq!(verdict.admits(), placed.is_ok());
                if let (Verdict::Fits(fit), Ok(placed)) = (&verdict, &placed) {
                    prop_assert_eq!(&fit.cpus, &placed.cpus, "as it was foretold");
                    prop_assert_eq!(fit.numa, placed.numa);
                }
                self.remember(placed);
            }
            Step::Gang(sizes) => {
                let asks: Vec<PodAsk> = sizes.iter().map(|&size| self.ask(size)).collect();
                let before = self.cluster.clone();
                match self.cluster.place_all(&asks) {
                    Ok(placements) => self.remember(placements),
                    Err(_) => prop_assert!(self.cluster == before, "nothing may remain"),
                }
            }
            Step::Remove(at) => {
                if let Some(pod) = self.pick(*at) {
                    let gone = self.placed.remove(&pod).map(|placement| placement.node);
                    prop_assert_eq!(self.cluster.remove(&pod.as_str().into()), gone);
                }
            }
            Step::Renew(node) => {
                let name = NODES[node % NODES.len()];
                self.cluster.insert(name.into(), member(name));
                self.placed
                    .retain(|_, placement| placement.node.as_str() != name);
            }
            Step::Ask(at, size) => {
                let pod = self.pick(*at).unwrap_or_else(|| "nobody".into());
                self.check_answers(&ask(&pod, *size))?;
            }
        }
        Ok(())
    }

    /// The cluster says what each node says that is asked alone and has nothing to remember.
    fn check_answers(&mut self, ask: &PodAsk) -> Result<(), TestCaseError> {
        let nodes = self.cluster.nodes();
        let mut alone: Vec<(NodeName, Member)> = nodes
            .map(|(name, member)| (name.clone(), member.clone()))
            .collect();
        for (name, member) in &mut alone {
            let untouched = member.clone();
            let cold = member.ask(ask);
            prop_assert!(*member == untouched, "asking changes nothing");
            prop_assert_eq!(&self.cluster.ask(ask, name), &cold, "{}", name);
        }
        let together = self.cluster.ask_all(ask);
        for ((name, mut member), answer) in alone.into_iter().zip(together) {
            prop_assert_eq!(answer.node, &name);
            prop_assert_eq!(answer.verdict, &member.ask(ask), "{}", name);
        }
        Ok(())
    }

    /// No CPU belongs to two pods, nor to a pod and the system.
    fn check_cpus(&self) -> Result<(), TestCaseError> {
        let mut taken = BTreeMap::<&str, CpuSet>::new();
        for (node, list) in OFF_LIMITS {
            taken.insert(node, cpus(list));
        }
        for placement in self.placed.values() {
            let taken = taken.entry(placement.node.as_str()).or_default();
            prop_assert!(taken.is_disjoint(&placement.cpus), "{:?}", placement);
            *taken |= &placement.cpus;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn warm_answers_are_cold_ones_and_no_cpu_is_given_twice(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut history = History::new();
        for step in &steps {
            history.go(step)?;
            history.check_cpus()?;
            history.check_answers(&ask("newcomer", 3))?;
        }
    }

    #[test]
    fn pods_that_come_and_go_leave_the_sums_as_they_were(
        sizes in proptest::collection::vec(1_u32..5, 1..8),
    ) {
        let mut history = History::new();
        let used = |cluster: &Cluster| -> Vec<(i64, i64)> {
            let sums = |member: &Member| (member.used().get("cpu"), member.pods());
            cluster.nodes().map(|(_, member)| sums(member)).collect()
        };
        let before = used(&history.cluster);
        let asks: Vec<PodAsk> = sizes.iter().map(|&size| history.ask(size)).collect();
        for ask in &asks {
            let _placed_or_not = history.cluster.place(ask);
        }
        for ask in &asks {
            history.cluster.remove(ask.uid());
        }
        prop_assert_eq!(used(&history.cluster), before);
    }
}
