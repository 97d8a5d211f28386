//! The worked examples of Volcano's design, number by number.

use super::hints::{cpu_hints, reserved_cpus};
use super::predicate::{Misfit, StatusCode};
use super::score::scores;
use super::session::Session;
use super::test_nodes::{container, cpus, machine, node, task};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::hint::{Hint, ResourceHints};
use crate::name::NodeName;
use crate::node_set::NodeSet;

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

/// What a task for so many CPUs gets on a node of 2 x 4 CPUs with that policy, as text.
fn placed(policy: &str, free: &str, asked: &str, fidelity: Fidelity) -> Result<String, Misfit> {
    let session = Session::open([node("n", policy, machine(2, 4, 1), free)], 1, fidelity);
    let found = session.simulate(&task("t", policy, &[asked]), &NodeName::from("n"));
    let found = found.map_err(|error| error.misfit)?;
    Ok(found.unwrap_or_default().to_string())
}

/// EX-10.
#[test]
fn three_cpus_beside_two_busy_ones_come_from_the_other_node() {
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
fn three_cpus_that_no_node_has_are_spread_or_refused_by_policy() {
    assert_eq!(hint_list("2-5", 3), [on(0b11, false)]);
    for fidelity in BOTH {
        for policy in ["restricted", "single-numa-node"] {
            let refusal = placed(policy, "2-5", "3", fidelity).expect_err("no single node");
            assert_eq!(
                refusal.to_string(),
                "container c0 cannot be assigned by numa"
            );
            assert_eq!(refusal.code(), StatusCode::UnschedulableAndUnresolvable);
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

/// C19: restricted refuses only what an empty machine could do better.
#[test]
fn restricted_admits_two_nodes_where_two_are_needed() {
    for fidelity in BOTH {
        let six = placed("restricted", "0-7", "6", fidelity).expect("as narrow as possible");
        assert_eq!(cpus(&six).len(), 6);
    }
}

/// EX-24.
#[test]
fn a_best_effort_job_for_four_cpus_fills_one_node() {
    for fidelity in BOTH {
        assert_eq!(
            placed("best-effort", "0-7", "4", fidelity),
            Ok("0-3".into())
        );
    }
}

#[test]
fn cpus_that_cannot_be_found_are_refused_and_not_silently_left_out() {
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
fn half_a_cpu_has_no_opinion_and_gets_no_cpu() {
    for fidelity in BOTH {
        assert_eq!(
            placed("single-numa-node", "0-7", "1500m", fidelity),
            Ok(String::new())
        );
    }
}

#[test]
fn a_reservation_is_rounded_up_and_one_beyond_the_machine_reserves_all() {
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
fn a_free_cpu_that_the_topology_does_not_list_counts_for_nothing() {
    // CPUs 8 and 9 do not exist; the original counts them on node 0.
    let free = cpus("0,8-9");
    let count = |fidelity| cpu_hints(&machine(2, 4, 1), Some(&free), 3, fidelity);
    let first = |fidelity| count(fidelity).rows.into_iter().next().map(|row| row.1);
    assert_eq!(first(Fidelity::Sound), Some(ResourceHints::Cannot));
    assert!(matches!(
        first(Fidelity::Exact),
        Some(ResourceHints::Family(_))
    ));
}

#[test]
fn init_containers_get_cpus_that_the_rest_of_the_pod_uses_again() {
    let name = NodeName::from("n");
    let on = |fidelity| {
        let four = node("n", "single-numa-node", machine(2, 4, 1), "0-7");
        Session::open([four], 1, fidelity)
    };
    let mut task = task("t", "single-numa-node", &["2"]);
    task.pod.init_containers = vec![container("setup", "3")];
    let sound = on(Fidelity::Sound).simulate(&task, &name);
    assert_eq!(
        sound,
        Ok(Some(cpus("0-2"))),
        "two of the three are used again"
    );
    let exact = on(Fidelity::Exact).simulate(&task, &name);
    assert_eq!(exact, Ok(Some(cpus("0-1"))));

    // A sidecar keeps its CPUs: the container goes beside it.
    task.pod.init_containers[0].restartable = true;
    let beside = on(Fidelity::Sound).simulate(&task, &name);
    assert_eq!(beside, Ok(Some(cpus("0-2,4-5"))));

    // An init container that no node can hold keeps the pod out.
    task.pod.init_containers = vec![container("setup", "5")];
    let refused = on(Fidelity::Sound).simulate(&task, &name);
    let misfit = refused.expect_err("five CPUs on one node of four").misfit;
    assert_eq!(
        misfit.to_string(),
        "container setup cannot be assigned by numa"
    );
}
