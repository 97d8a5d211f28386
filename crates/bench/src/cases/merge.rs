//! Section (a): the merge on a machine where every set of nodes is possible and single nodes are preferred.
//!
//! The kubelet gets its hints as lists and only merges; here every operation builds the families as well.

use std::hint::black_box;

use pinfold_core::hint::{
    Component, Family, Hint, Preference, ProviderHints, ResourceHints, Threshold,
};
use pinfold_core::merge::{Budgets, Distances, MergeRequest, MergeResult, merge};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::reference::{self, ReferenceRow};

pub(super) fn cases() -> Vec<BenchCase> {
    reference::section('a').iter().map(case).collect()
}

fn case(shape: &ReferenceRow) -> BenchCase {
    let (policy, resources) = (shape.text("policy"), shape.text("resources"));
    let closest = shape.text("closest") == "true";
    let nodes = shape.number("NUMA");
    let suffix = if closest { ", closest" } else { "" };
    let name = format!("{nodes} nodes, {resources}, {policy}{suffix}");
    let prepare = move || {
        let input = MergeInput::new(nodes, policy, resources, closest);
        let expected = Hint::on(NodeSet::single(fixture::node_id(0)), true);
        assert_eq!(input.merge().hint, expected);
        move || drop(black_box(input.merge()))
    };
    BenchCase::new(Group::Merge, name, prepare).beside(shape.reference())
}

/// The hints to be merged.
struct MergeInput {
    nodes: NodeSet,
    policy: TopologyPolicy,
    distances: Option<Distances>,
    /// The resources of each provider: devices, CPUs, memory.
    resources: [Vec<ResourceName>; 3],
}

impl MergeInput {
    fn new(nodes: usize, policy: &str, resources: &str, closest: bool) -> Self {
        let rows: Vec<Vec<u32>> = (0..nodes)
            .map(|from| (0..nodes).map(|to| fixture::distance(from, to)).collect())
            .collect();
        let rows = (0..nodes)
            .map(fixture::node_id)
            .zip(rows.iter().map(Vec::as_slice));
        let mut providers = [Vec::new(), Vec::new(), Vec::new()];
        for resource in resources.split('+') {
            match resource {
                "cpu" => providers[1].push(resource.into()),
                "memory" | "hugepages" => providers[2].push(resource.into()),
                "1dev" => providers[0].push("a".into()),
                "2dev" => providers[0].extend(["a".into(), "b".into()]),
                _ => panic!("the record has an unknown resource {resource:?}"),
            }
        }
        Self {
            nodes: (0..nodes).map(fixture::node_id).collect(),
            policy: policy.parse().expect("the record names policies"),
            distances: closest.then(|| Distances::from_rows(rows)),
            resources: providers,
        }
    }

    fn merge(&self) -> MergeResult {
        let providers = self.resources.each_ref().map(|resources| ProviderHints {
            rows: resources
                .iter()
                .map(|resource| (resource.clone(), ResourceHints::Family(self.family())))
                .collect(),
        });
        merge(&MergeRequest {
            nodes: self.nodes,
            policy: self.policy,
            closest: self.distances.as_ref(),
            providers: &providers,
            budgets: Budgets::default(),
        })
    }

    /// Every non-empty set of nodes; single nodes are preferred.
    fn family(&self) -> Family {
        let one_each = self.nodes.iter().map(|node| (node, 1));
        let component = Component {
            universe: self.nodes,
            forced: NodeSet::EMPTY,
            thresholds: [Threshold::new(1, one_each)].into_iter().collect(),
        };
        Family {
            components: [component].into_iter().collect(),
            preference: Preference::Width(1),
        }
    }
}
