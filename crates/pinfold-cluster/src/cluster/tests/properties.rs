//! Invariants after any sequence of placed and removed pods and replaced nodes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Place(u32),
    PlaceOn(u32, usize),
    Remove(usize),
    /// Replaces a node by an empty one.
    Replace(usize),
    /// Evaluates a pod that may be placed already.
    Evaluate(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_u32..6).prop_map(Step::Place),
        2 => (1_u32..6, 0_usize..8).prop_map(|(size, node)| Step::PlaceOn(size, node)),
        3 => any::<usize>().prop_map(Step::Remove),
        1 => (0_usize..8).prop_map(Step::Replace),
        2 => (any::<usize>(), 1_u32..6).prop_map(|(pod, size)| Step::Evaluate(pod, size)),
    ]
}

pub(super) const NODES: [&str; 7] = ["k-1", "k-2", "o-1", "o-2", "o-3", "v-1", "x"];

/// CPUs that are reserved, or held by a pod that is never removed.
const OFF_LIMITS: [(&str, &str); 5] = [
    ("k-1", "0"),
    ("k-2", "0"),
    ("o-1", "0"),
    ("o-3", "1,4"),
    ("v-1", "7"),
];

pub(super) fn new_node(name: &str) -> ClusterNode {
    match name {
        "k-1" => kubelet("single-numa-node"),
        "k-2" => kubelet("best-effort"),
        "o-1" => koordinator(
            4,
            Some(NumaPolicy::SingleNumaNode),
            "0",
            KoordinatorArgs::default(),
        ),
        "o-2" => koordinator(
            4,
            Some(NumaPolicy::BestEffort),
            "",
            KoordinatorArgs::default(),
        ),
        "o-3" => koordinator(3, None, "1,4", KoordinatorArgs::default()),
        "v-1" => volcano("0-6"),
        _ => ClusterNode::unknown(room(3)),
    }
}

/// A cluster, and the placements that it returned.
struct History {
    cluster: Cluster,
    placed: BTreeMap<String, Placement>,
    next: usize,
}

impl History {
    fn new() -> Self {
        let mut cluster = Cluster::new();
        for name in NODES {
            cluster.insert(name.into(), new_node(name));
        }
        Self {
            cluster,
            placed: BTreeMap::new(),
            next: 0,
        }
    }

    fn request(&mut self, size: u32) -> PodRequest {
        self.next += 1;
        request(&format!("pod-{}", self.next), size)
    }

    fn record(&mut self, placements: impl IntoIterator<Item = Placement>) {
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
                let request = self.request(*size);
                let before = self.cluster.clone();
                let best = (self.cluster.rank(&request).first()).map(|ranked| ranked.node.clone());
                let placed = self.cluster.place(&request);
                prop_assert_eq!(
                    placed.as_ref().ok().map(|placed| &placed.node),
                    best.as_ref()
                );
                prop_assert!(placed.is_ok() || self.cluster == before);
                self.record(placed);
            }
            Step::PlaceOn(size, node) => {
                let request = self.request(*size);
                let name = NODES[node % NODES.len()].into();
                let evaluation = self.cluster.evaluate(&request, &name);
                let placed = self.cluster.place_on(&request, &name);
                prop_assert_eq!(evaluation.admits(), placed.is_ok());
                if let (Evaluation::Fits(fit), Ok(placed)) = (&evaluation, &placed) {
                    prop_assert_eq!(&fit.cpus, &placed.cpus, "as evaluated");
                    prop_assert_eq!(fit.numa, placed.numa);
                }
                self.record(placed);
            }
            Step::Remove(at) => {
                if let Some(pod) = self.pick(*at) {
                    let gone = self.placed.remove(&pod).map(|placement| placement.node);
                    prop_assert_eq!(self.cluster.remove(&pod.as_str().into()), gone);
                }
            }
            Step::Replace(node) => {
                let name = NODES[node % NODES.len()];
                self.cluster.insert(name.into(), new_node(name));
                self.placed
                    .retain(|_, placement| placement.node.as_str() != name);
            }
            Step::Evaluate(at, size) => {
                let pod = self.pick(*at).unwrap_or_else(|| "unplaced".into());
                self.check_answers(&request(&pod, *size))?;
            }
        }
        Ok(())
    }

    /// The cluster returns the same evaluations as each node without a cache.
    fn check_answers(&mut self, request: &PodRequest) -> Result<(), TestCaseError> {
        let nodes = self.cluster.nodes();
        let mut alone: Vec<(NodeName, ClusterNode)> = nodes
            .map(|(name, node)| (name.clone(), node.clone()))
            .collect();
        for (name, node) in &mut alone {
            let untouched = node.clone();
            let cold = node.evaluate(request);
            prop_assert!(*node == untouched, "evaluating changes nothing");
            prop_assert_eq!(&self.cluster.evaluate(request, name), &cold, "{}", name);
        }
        let together = self.cluster.evaluate_all(request);
        for ((name, mut node), evaluated) in alone.into_iter().zip(together) {
            prop_assert_eq!(evaluated.node, &name);
            prop_assert_eq!(evaluated.evaluation, &node.evaluate(request), "{}", name);
        }
        Ok(())
    }

    /// No CPU is held by two pods, or by a pod and the system.
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
    fn cached_evaluations_equal_fresh_ones_and_no_cpu_is_assigned_twice(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut history = History::new();
        for step in &steps {
            history.go(step)?;
            history.check_cpus()?;
            history.check_answers(&request("new", 3))?;
        }
    }

    #[test]
    fn removing_all_pods_restores_the_used_amounts(
        sizes in proptest::collection::vec(1_u32..5, 1..8),
    ) {
        let mut history = History::new();
        let used = |cluster: &Cluster| -> Vec<(i64, i64)> {
            let sums = |node: &ClusterNode| (node.used().get("cpu"), node.pods());
            cluster.nodes().map(|(_, node)| sums(node)).collect()
        };
        let before = used(&history.cluster);
        let requests: Vec<PodRequest> = sizes.iter().map(|&size| history.request(size)).collect();
        for request in &requests {
            let _placed_or_not = history.cluster.place(request);
        }
        for request in &requests {
            history.cluster.remove(request.uid());
        }
        prop_assert_eq!(used(&history.cluster), before);
    }
}
