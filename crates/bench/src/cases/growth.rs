//! How the cost grows with the machine, the number of resources, pods and containers.

use super::admission::AdmissionCase;
use super::hints;
use super::merge_in_full::{self, SEEDS};
use super::picking::Pick;
use crate::case::{BenchCase, Group};
use crate::merge_cases::{Load, Random, machine_case};

const NODES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const CPUS: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];
const RESOURCES: [usize; 5] = [1, 2, 3, 5, 10];
const PODS: [usize; 5] = [0, 10, 50, 100, 250];
const CONTAINERS: [usize; 4] = [10, 100, 1000, 2000];

pub(super) fn cases() -> Vec<BenchCase> {
    let mut cases = Vec::new();
    cases.extend(NODES.map(|nodes| merge_in_full::idle(Group::Growth, nodes)));
    cases.extend(NODES.map(|nodes| merge_in_full::crowded(Group::Growth, nodes, SEEDS)));
    for nodes in [8, 64] {
        for resources in RESOURCES {
            let name = format!("crowded scenes, {nodes} nodes, {resources} resources");
            let make = move |random: &mut Random| {
                machine_case(random, nodes, resources, Load::Crowded, false)
            };
            cases.push(merge_in_full::scenes(Group::Growth, name, SEEDS, make));
        }
    }
    for cpus in CPUS {
        cases.push(hints::case(Group::Growth, 8, cpus));
    }
    for fragmented in [false, true] {
        for algorithm in ["packed", "packed, uncore-aligned", "distributed"] {
            for cpus in CPUS {
                let pick = Pick {
                    nodes: 8,
                    cpus,
                    request: 8,
                    fragmented,
                    algorithm,
                };
                cases.push(pick.case(Group::Growth));
            }
        }
    }
    for cpus in CPUS {
        let name = format!("admission, {cpus} CPUs on 8 nodes");
        cases.push(admission(8, cpus, 0).case(Group::Growth, name));
    }
    for nodes in NODES {
        let name = format!("admission, {nodes} nodes with 1024 CPUs");
        cases.push(admission(nodes, 1024, 0).case(Group::Growth, name));
    }
    for pods in PODS {
        let name = format!("admission, 8 nodes with 1024 CPUs and {pods} pods");
        let case = admission(8, 1024, pods).case(Group::Growth, name);
        cases.push(case.within_us(30.0));
    }
    for containers in CONTAINERS {
        let name = format!("admission of a pod of {containers} containers, 8 nodes");
        let of_many = AdmissionCase {
            containers,
            ..admission(8, 1024, 0)
        };
        let case = of_many.case(Group::Growth, name);
        cases.push(match containers {
            1000 => case.within_us(20_000.0),
            _ => case,
        });
    }
    cases
}

fn admission(nodes: usize, cpus: usize, pods: usize) -> AdmissionCase {
    AdmissionCase {
        nodes,
        cpus,
        pods,
        containers: 1,
        policy: "best-effort",
        scope: "container",
    }
}
