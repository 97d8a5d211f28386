//! One PreFilter call of kube-scheduler's plugin with thousands of nodes: decided, scored and grouped by reason.
//!
//! The nodes have all policies and random states. Cold: no pod of the shape was evaluated before. Warm: one was, and a
//! few pods were added or removed since; also while every node has a pod that its report lacks, as after many bindings.
//! Without needs: a pod to which no NUMA rule applies.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pinfold_cluster::MAX_SHAPES;
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::settings::Settings;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node_resource_topology::{self, NrtVersion};
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_scheduler::cache::node::{NodeInfo, parse_node, parse_report};
use pinfold_scheduler::cache::pod_info::PodInfo;
use pinfold_scheduler::cache::{CachePolicy, pod_info};
use pinfold_scheduler::{Cache, EngineConfig, Weights};
use serde_json::{Value, json};

use crate::case::{BenchCase, Group};
use crate::fixture::{self, MachineShape};
use crate::merge_cases::Random;

const NODES: usize = 5000;
/// The number of nodes that change between two requests.
const CHANGED: usize = 10;
/// The number of different nodes of each policy; the other nodes are copies.
const STATES: u64 = 40;
/// The number of different nodes of a fleet.
const FEW_STATES: u64 = 300;

pub(super) fn cases() -> Vec<BenchCase> {
    let name = |what: &str| format!("PreFilter with {NODES} mixed nodes, {what}");
    let warm = BenchCase::new(Group::Engine, name("warm"), || {
        let mut cache = mixed();
        let info = info(&pod("next", 8, 0));
        let mut number = 0;
        move || {
            change(&mut cache, &mut number);
            black_box(cache.pre_filter(black_box(&info), &Weights::default()));
        }
    });
    let busy_nodes = name("warm, each with a pod that is not reported yet");
    let unreported = BenchCase::new(Group::Engine, busy_nodes, || {
        let mut cache = plain();
        let now = Instant::now();
        for at in 0..NODES {
            let node = format!("node-{at:04}");
            let small = info(&pod(&format!("unreported-{at}"), 1, 0));
            // A full node gets none.
            let _ = cache.reserve(&small, &node.as_str().into(), now);
        }
        let info = info(&pod("next", 8, 0));
        let mut number = 0;
        move || {
            change(&mut cache, &mut number);
            black_box(cache.pre_filter(black_box(&info), &Weights::default()));
        }
    });
    let cold = BenchCase::new(Group::Engine, name("cold"), || {
        let mut cache = mixed();
        // More shapes than the cache holds, so that none is cached when its turn comes again.
        let sizes = (0..).take(MAX_SHAPES + 4);
        let pods: Vec<Arc<PodInfo>> = sizes.map(|size| info(&pod("cold", 8, size))).collect();
        let mut turn = 0;
        move || {
            turn = (turn + 1) % pods.len();
            black_box(cache.pre_filter(&pods[turn], &Weights::default()));
        }
    });
    let few_states = format!("PreFilter of a new shape with {NODES} nodes in {FEW_STATES} states");
    let few_states = BenchCase::new(Group::Engine, few_states, || {
        let kinds = ["single-numa-node", "restricted", "best-effort", "none"];
        let mut cache = in_states(&kinds, FEW_STATES / 4);
        let sizes = (0..).take(MAX_SHAPES + 4);
        let pods: Vec<Arc<PodInfo>> = sizes.map(|size| info(&pod("new", 8, size))).collect();
        let mut turn = 0;
        move || {
            turn = (turn + 1) % pods.len();
            black_box(cache.pre_filter(&pods[turn], &Weights::default()));
        }
    });
    let free = BenchCase::new(Group::Engine, name("without needs"), || {
        let mut cache = plain();
        let mut pod = pod("free", 1, 0);
        pod["spec"]["containers"][0]["resources"] = json!({});
        let info = info(&pod);
        move || {
            black_box(cache.pre_filter(&info, &Weights::default()));
        }
    });
    let reserve = "reserve after two others, on a node with 12 pods of 128 CPUs".to_owned();
    let reserve = BenchCase::new(Group::Engine, reserve, || {
        let mut cache = busy();
        let read = |name: &str| {
            pod_info::parse(&pod(name, 2, 0).to_string())
                .expect("a pod")
                .info
        };
        let (node, now) = ("busy".into(), Instant::now());
        for name in ["first", "second"] {
            cache.reserve(&read(name), &node, now).expect("room");
        }
        let third = read("third");
        move || {
            assert!(black_box(cache.reserve(&third, &node, now)).is_ok());
            cache.release(third.uid(), now);
        }
    });
    vec![
        warm.within_us(5000.0),
        unreported.within_us(5000.0),
        cold,
        few_states.within_us(5000.0),
        free.within_us(5000.0),
        reserve.within_us(5000.0),
    ]
}

/// Adds pods to some nodes and removes them again.
fn change(cache: &mut Cache, number: &mut usize) {
    let now = Instant::now();
    for at in 0..CHANGED {
        *number += 1;
        let node = format!("node-{:04}", (*number * 37 + at) % NODES);
        let added = pod(&format!("added-{}", *number % 400), 1, 0);
        if let Ok(added) = pod_info::parse(&added.to_string()) {
            cache.release(added.info.uid(), now);
            // The pod is not added to a node that it does not fit.
            let _ = cache.reserve(&added.info, &node.as_str().into(), now);
        }
    }
}

fn pod(name: &str, cpus: u32, size: u32) -> Value {
    let memory = format!("{}Mi", 4096 + size);
    let amounts = json!({ "cpu": cpus.to_string(), "memory": memory });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "bench", "uid": format!("{name}-{cpus}-{size}"), "resourceVersion": "1" },
        "spec": { "containers": [{
            "name": "main", "image": "i", "resources": { "requests": amounts, "limits": amounts },
        }]},
    })
}

fn info(pod: &Value) -> Arc<PodInfo> {
    pod_info::parse(&pod.to_string()).expect("a pod").info
}

fn policy() -> CachePolicy {
    let config = EngineConfig::default();
    CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    }
}

/// A cache with all nodes.
fn mixed() -> Cache {
    filled(&[
        "single-numa-node",
        "restricted",
        "best-effort",
        "koordinator",
        "none",
    ])
}

/// The same without nodes whose rules apply to every pod.
fn plain() -> Cache {
    filled(&["single-numa-node", "restricted", "best-effort", "none"])
}

fn filled(kinds: &[&str]) -> Cache {
    in_states(kinds, STATES)
}

/// A cache whose nodes are in so many different states of each kind.
fn in_states(kinds: &[&str], count: u64) -> Cache {
    let now = Instant::now();
    let mut cache = Cache::new(policy());
    let states: Vec<Vec<Value>> = kinds
        .iter()
        .map(|kind| (0..count).map(|seed| report(kind, seed)).collect())
        .collect();
    for at in 0..NODES {
        let name = format!("node-{at:04}");
        cache.apply_node(node(&name), now);
        let kind = &states[at % kinds.len()];
        let mut object = kind[at / kinds.len() % kind.len()].clone();
        object["metadata"]["name"] = name.into();
        let (name, report) = parse_report(&object.to_string(), now).expect("a report");
        cache.apply_report(&name, report, now);
    }
    // Pods are not listed: without a list, those that the reports have are there.
    cache
}

/// A cache with one node, two thirds of whose CPUs are held.
fn busy() -> Cache {
    let now = Instant::now();
    let mut cache = Cache::new(policy());
    cache.apply_node(node("busy"), now);
    let sizes: Vec<(u64, u64)> = (0..12).map(|at| (5 + at % 5, 2 + at % 4)).collect();
    let mut object = object("single-numa-node", &sizes);
    object["metadata"]["name"] = "busy".into();
    let (name, report) = parse_report(&object.to_string(), now).expect("a report");
    cache.apply_report(&name, report, now);
    cache
}

fn node(name: &str) -> NodeInfo {
    let node = json!({
        "metadata": { "name": name, "resourceVersion": "1" },
        "status": { "allocatable": { "cpu": "126", "memory": "120Gi", "pods": "110" } },
    });
    parse_node(&node.to_string()).expect("a node")
}

/// The report of a node between empty and full.
fn report(kind: &str, seed: u64) -> Value {
    let mut random = Random(seed);
    let sizes = (0..random.below(16)).map(|_| (1 + random.below(12), 1 + random.below(8)));
    let sizes: Vec<(u64, u64)> = sizes.collect();
    let mut object = object(kind, &sizes);
    object["metadata"]["resourceVersion"] = format!("{seed}").into();
    object
}

/// The report of a node with 128 CPUs on 2 NUMA nodes and pods with these CPUs and GiB of memory.
fn object(kind: &str, sizes: &[(u64, u64)]) -> Value {
    let shape = MachineShape {
        nodes: 2,
        cpus: 128,
        caches: 2,
        hugepages: 0,
    };
    let (policy, dialect) = match kind {
        "koordinator" => ("none", DialectName::Koordinator),
        policy => (policy, DialectName::Kubelet),
    };
    let settings = Settings {
        fidelity: Fidelity::Exact,
        ..fixture::settings(policy, "container")
    };
    let mut ledger: Ledger = fixture::ledger(shape.machine(), settings);
    for (number, (cpus, gib)) in sizes.iter().enumerate() {
        let amounts = [("cpu", cpus.to_string()), ("memory", format!("{gib}Gi"))];
        let amounts: Vec<(&str, &str)> = amounts
            .iter()
            .map(|(name, amount)| (*name, amount.as_str()))
            .collect();
        // A pod that does not fit is skipped.
        let _ = ledger.admit(
            &fixture::pod(&format!("r{number}"), &amounts),
            &mut NoPreference,
        );
    }
    let rules = ledger.rules();
    let occupancy = ledger.occupancy();
    let plain =
        node_resource_topology::publish("node", rules.machine(), &occupancy, rules.settings());
    let facts = ReportAnnotations::of(rules.machine(), rules.settings(), rules.reserved_cpus());
    let mut object = koordinator::publish(&plain, &facts);
    PublishedNodeState::attach(&ledger, dialect, &mut object);
    let object = object.converted(NrtVersion::V1Alpha2);
    serde_json::to_value(object.content()).expect("JSON")
}
