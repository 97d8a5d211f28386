//! The worked examples of Volcano's design document.

use std::sync::Arc;

use super::hints::{cpu_hints, reserved_cpus};
use super::numa_amounts::{NumaAmount, NumaAmounts};
use super::predicate::{Misfit, VolcanoTask};
use super::score::scores;
use super::test_nodes::{cluster_node, container, cpus, evaluate, machine, node, request, task};
use crate::{Cluster, ClusterNode, Dialect};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::{Hint, ResourceHints};
use pinfold_core::node_set::{NodeId, NodeSet};

const BOTH: [Fidelity; 2] = [Fidelity::Exact, Fidelity::Sound];

fn hint_list(free: &str, asked: i64) -> Vec<Hint> {
    let hints = cpu_hints(&machine(2, 4, 1), Some(&cpus(free)), asked, Fidelity::Sound);
    match hints.rows.first() {
        Some((_, ResourceHints::Family(family))) => family.list(),
        _ => Vec::new(),
    }
}

fn on(bits: u64, preferred: bool) -> Hint {
    Hint::on(NodeSet::from_bits(bits), preferred)
}

/// The CPUs of a task on a node of 2 x 4 CPUs with that policy, as text.
fn placed(policy: &str, free: &str, asked: &str, fidelity: Fidelity) -> Result<String, Misfit> {
    let info = node(policy, machine(2, 4, 1), free);
    let node = cluster_node(Some(info), NumaAmounts::default(), fidelity);
    let found = evaluate(node, &task("t", policy, &[asked]))?;
    Ok(found.unwrap_or_default().to_string())
}

/// EX-10.
#[test]
fn three_cpus_come_from_the_numa_node_without_busy_cpus() {
    assert_eq!(hint_list("2-7", 3), [on(0b10, true), on(0b11, false)]);
    for fidelity in BOTH {
        assert_eq!(
            placed("best-effort", "2-7", "3", fidelity),
            Ok("4-6".into())
        );
    }
}

/// EX-11.
#[test]
fn three_cpus_that_no_numa_node_has_are_spread_or_rejected_by_policy() {
    assert_eq!(hint_list("2-5", 3), [on(0b11, false)]);
    for fidelity in BOTH {
        for policy in ["restricted", "single-numa-node"] {
            let rejection = placed(policy, "2-5", "3", fidelity).expect_err("no single node");
            assert_eq!(
                rejection.to_string(),
                "container c0 cannot be assigned by numa"
            );
        }
        let spread = placed("best-effort", "2-5", "3", fidelity).expect("best effort");
        assert_eq!(cpus(&spread).len(), 3);
    }
}

/// EX-12.
#[test]
fn one_numa_node_scores_higher_than_two() {
    assert_eq!(scores(&[1, 2], 1), [50.0, 0.0]);
    assert_eq!(scores(&[1, 2], 10), [500.0, 0.0]);
    assert_eq!(scores(&[0, 0], 3), [300.0, 300.0]);
    assert_eq!(scores(&[], 1), [0.0; 0]);
}

/// C19: `restricted` rejects only hints wider than an empty machine needs.
#[test]
fn restricted_admits_two_numa_nodes_if_two_are_needed() {
    for fidelity in BOTH {
        let six = placed("restricted", "0-7", "6", fidelity).expect("as narrow as possible");
        assert_eq!(cpus(&six).len(), 6);
    }
}

/// EX-24.
#[test]
fn a_best_effort_task_for_four_cpus_fills_one_numa_node() {
    for fidelity in BOTH {
        assert_eq!(
            placed("best-effort", "0-7", "4", fidelity),
            Ok("0-3".into())
        );
    }
}

#[test]
fn a_task_whose_cpus_cannot_be_found_is_rejected_in_sound_mode() {
    let short = placed("best-effort", "0-1", "3", Fidelity::Sound).expect_err("two are free");
    assert_eq!(
        short.to_string(),
        "container c0 needs 3 cpus, 2 are available"
    );
    assert_eq!(
        placed("best-effort", "0-1", "3", Fidelity::Exact),
        Ok(String::new())
    );
}

#[test]
fn a_fraction_of_a_cpu_has_no_hint_and_gets_no_cpu() {
    for fidelity in BOTH {
        assert_eq!(
            placed("single-numa-node", "0-7", "1500m", fidelity),
            Ok(String::new())
        );
    }
}

#[test]
fn a_reservation_is_rounded_up_and_one_larger_than_the_machine_reserves_all() {
    let detail = machine(2, 4, 1);
    let reserved = |text: &str, fidelity| {
        let quantity = text.parse().expect("a quantity");
        reserved_cpus(&detail, Some(&quantity), fidelity)
    };
    for fidelity in BOTH {
        assert_eq!(reserved("1500m", fidelity).len(), 2);
        assert_eq!(reserved("0", fidelity), CpuSet::new());
        assert_eq!(reserved_cpus(&detail, None, fidelity), CpuSet::new());
    }
    assert_eq!(reserved("9", Fidelity::Sound), *detail.all());
    assert_eq!(reserved("9", Fidelity::Exact), CpuSet::new());
}

#[test]
fn a_free_cpu_that_the_topology_does_not_list_is_ignored_in_sound_mode() {
    // CPUs 8 and 9 do not exist; Volcano counts them on NUMA node 0.
    let free = cpus("0,8-9");
    let count = |fidelity| cpu_hints(&machine(2, 4, 1), Some(&free), 3, fidelity);
    let first = |fidelity| count(fidelity).rows.into_iter().next().map(|row| row.1);
    assert_eq!(first(Fidelity::Sound), Some(ResourceHints::Unsatisfiable));
    assert!(matches!(
        first(Fidelity::Exact),
        Some(ResourceHints::Family(_))
    ));
}

#[test]
fn the_cpus_of_init_containers_are_reused_by_later_containers() {
    let on = |task: &VolcanoTask, fidelity| {
        let info = node("single-numa-node", machine(2, 4, 1), "0-7");
        evaluate(
            cluster_node(Some(info), NumaAmounts::default(), fidelity),
            task,
        )
    };
    let mut task = task("t", "single-numa-node", &["2"]);
    Arc::make_mut(&mut task.pod).init_containers = vec![container("setup", "3")];
    let sound = on(&task, Fidelity::Sound);
    assert_eq!(
        sound,
        Ok(Some(cpus("0-2"))),
        "two of the three are used again"
    );
    let exact = on(&task, Fidelity::Exact);
    assert_eq!(exact, Ok(Some(cpus("0-1"))));

    // A sidecar keeps its CPUs: the app container gets others.
    Arc::make_mut(&mut task.pod).init_containers[0].restartable = true;
    let beside = on(&task, Fidelity::Sound);
    assert_eq!(beside, Ok(Some(cpus("0-2,4-5"))));

    // An init container that fits no NUMA node rejects the pod.
    Arc::make_mut(&mut task.pod).init_containers = vec![container("setup", "5")];
    let rejected = on(&task, Fidelity::Sound);
    let misfit = rejected.expect_err("five CPUs on one node of four");
    assert_eq!(
        misfit.to_string(),
        "container setup cannot be assigned by numa"
    );
}

const GIB: u64 = 1 << 30;

/// A node of 2 x 4 CPUs with these GiB of memory and GPUs on its NUMA nodes.
fn with_amounts(policy: &str, memory: [u64; 2], gpus: [u64; 2], fidelity: Fidelity) -> ClusterNode {
    let rows = (0..2).flat_map(|at| {
        let id = NodeId::new(i64::try_from(at).expect("small")).expect("small");
        let all = |total: u64| NumaAmount { total, free: total };
        [
            ("memory".into(), id, all(memory[at] * GIB)),
            ("example.com/gpu".into(), id, all(gpus[at])),
        ]
    });
    let info = node(policy, machine(2, 4, 1), "0-7");
    cluster_node(Some(info), NumaAmounts::new(rows), fidelity)
}

fn task_with(policy: &str, cpu: &str, memory: &str, gpus: &str) -> VolcanoTask {
    let mut task = task("t", policy, &[cpu]);
    let container = &mut Arc::make_mut(&mut task.pod).containers[0];
    for list in [&mut container.requests, &mut container.limits] {
        list.insert("memory".into(), memory.parse().expect("a quantity"));
        list.insert("example.com/gpu".into(), gpus.parse().expect("a quantity"));
    }
    task
}

#[test]
fn memory_and_devices_are_aligned_with_the_cpus_in_sound_mode() {
    // The GPUs are on NUMA node 1, so the CPUs come from it too.
    let task = task_with("single-numa-node", "2", "4Gi", "1");
    let place = |fidelity| {
        evaluate(
            with_amounts("single-numa-node", [8, 8], [0, 2], fidelity),
            &task,
        )
    };
    assert_eq!(place(Fidelity::Sound), Ok(Some(cpus("4-5"))));
    assert_eq!(place(Fidelity::Exact), Ok(Some(cpus("0-1"))));

    // The memory is on NUMA node 0 only: no single NUMA node has both.
    let apart = with_amounts("single-numa-node", [8, 2], [0, 2], Fidelity::Sound);
    let rejected = evaluate(apart, &task).expect_err("GPU and memory are apart");
    assert_eq!(
        rejected.to_string(),
        "container c0 cannot be assigned by numa"
    );
}

#[test]
fn insufficient_memory_rejects_even_under_best_effort() {
    let task = task_with("best-effort", "1", "20Gi", "0");
    let node = with_amounts("best-effort", [8, 8], [0, 0], Fidelity::Sound);
    let rejected = evaluate(node, &task).expect_err("16 GiB in all");
    assert_eq!(
        rejected.to_string(),
        "container c0 needs 21474836480 of memory, 17179869184 are available"
    );
}

#[test]
fn memory_and_devices_are_assigned_once_and_released() {
    let mut cluster = Cluster::new();
    let node = with_amounts("single-numa-node", [8, 8], [1, 0], Fidelity::Sound);
    cluster.insert("n".into(), node.clone());
    let first = task_with("single-numa-node", "1", "1Gi", "1");
    cluster.place(&request(&first)).expect("one GPU is free");
    let mut second = first.clone();
    Arc::make_mut(&mut second.pod).uid = "u".into();
    assert!(
        cluster.place(&request(&second)).is_err(),
        "the GPU is taken"
    );
    cluster.remove(&first.pod.uid);
    let after = cluster.node(&"n".into()).expect("inserted");
    assert_eq!(after.dialect(), node.dialect());
    cluster.place(&request(&second)).expect("the GPU is free");
}

#[test]
fn memory_of_an_init_container_is_reused_and_that_of_a_sidecar_is_not() {
    let mut task = task_with("single-numa-node", "1", "6Gi", "0");
    // The memory that the pod takes from each NUMA node.
    let memory = |task: &VolcanoTask| {
        let mut cluster = Cluster::new();
        let node = with_amounts("single-numa-node", [8, 8], [0, 0], Fidelity::Sound);
        cluster.insert("n".into(), node);
        cluster.place(&request(task)).expect("fits");
        let node = cluster.node(&"n".into()).expect("inserted");
        let Dialect::Volcano(node) = node.dialect() else {
            panic!("a node of Volcano")
        };
        let left = [0, 1].map(|id| {
            node.amounts
                .on(&"memory".into(), NodeId::new(id).expect("small"))
        });
        left.map(|left| left.total - left.free)
    };
    let first = task.pod.containers[0].clone();
    Arc::make_mut(&mut task.pod).init_containers = vec![first];
    Arc::make_mut(&mut task.pod).init_containers[0].name = "setup".into();
    assert_eq!(memory(&task), [6 * GIB, 0]);
    Arc::make_mut(&mut task.pod).init_containers[0].restartable = true;
    assert_eq!(memory(&task), [6 * GIB, 6 * GIB]);
}
