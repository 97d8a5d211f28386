//! Tests of the plugin: one test per rule of sound mode, and invariants for any sequence of pods.

use proptest::prelude::*;

use super::*;
use crate::koordinator::amplify::Ratios;
use crate::koordinator::cpu_topology::tests::machine;
use crate::koordinator::cpu_topology::{KoordinatorTopology, ReportedCpu};
use crate::koordinator::ledger::KoordinatorLedger;
use crate::koordinator::node::KoordinatorReport;
use crate::koordinator::policy_values::NodeBindPolicy;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::{NodeId, NodeSet};

fn zones(topology: &KoordinatorTopology, memory: i64) -> Vec<NodeAmounts> {
    let ids = topology.nodes.iter().map(|node| (node.id, node.cpus.len()));
    ids.map(|(id, cpus)| NodeAmounts {
        node: NodeId::new(id).expect("small"),
        amounts: Amounts::from([("cpu", cpus as i64 * 1000), ("memory", memory)]),
    })
    .collect()
}

fn node(topology: KoordinatorTopology, fidelity: Fidelity) -> KoordinatorNode {
    let zones = zones(&topology, 64);
    let cpus = topology.all().len() as i64;
    KoordinatorNode {
        allocatable: Amounts::from([("cpu", cpus * 1000), ("memory", 64 * zones.len() as i64)]),
        report: Some(KoordinatorReport::new(
            topology,
            &CpuSet::new(),
            CpuSet::new(),
            zones,
        )),
        ledger: KoordinatorLedger::new(fidelity),
        ..KoordinatorNode::default()
    }
}

/// A pod with the policies of its annotations `resource-spec` and `numa-topology-spec`.
fn pod(qos: KoordinatorQos, milli: i64, spec: &str, numa: &str) -> PodDemand {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (spec, numa) = (read(spec), read(numa));
    PodDemand {
        requests: Amounts::from([("cpu", milli), ("memory", 8)]),
        limits: Amounts::from([("cpu", milli)]),
        qos: Some(qos),
        priority: None,
        spec: ResourceSpec {
            required_bind: (spec["requiredCPUBindPolicy"].as_str()).and_then(BindPolicy::parse),
            preferred_bind: (spec["preferredCPUBindPolicy"].as_str()).and_then(BindPolicy::parse),
            preferred_exclusive: (spec["preferredCPUExclusivePolicy"].as_str())
                .and_then(ExclusivePolicy::parse),
        },
        numa: NumaSpec {
            policy: numa["numaTopologyPolicy"]
                .as_str()
                .and_then(NumaPolicy::parse),
            exclusive: (numa["singleNUMANodeExclusive"].as_str()).and_then(NumaExclusive::parse),
        },
    }
}

fn state(pod: &PodDemand, fidelity: Fidelity) -> PreFilterState {
    pre_filter(pod, &KoordinatorArgs::default(), fidelity)
        .expect("a good pod")
        .expect("it requests something")
}

/// Runs all extension points and adds the pod to the node; returns its allocation.
fn place(
    node: &mut KoordinatorNode,
    name: &str,
    pod: &PodDemand,
) -> Result<Option<Allocation>, String> {
    let (args, fidelity) = (KoordinatorArgs::default(), node.ledger.fidelity());
    let text = |rejection: KoordinatorRejection| rejection.to_string();
    let state = pre_filter(pod, &args, fidelity).map_err(text)?;
    let state = state.expect("it requests something");
    let placement = filter(&state, node, &args).map_err(text)?;
    let allocation = reserve(&state, node, &args, placement.as_ref()).map_err(text)?;
    node.assume(name.into(), &pod.requests, allocation.clone());
    Ok(allocation)
}

#[test]
fn a_pod_without_requests_is_skipped() {
    let pod = PodDemand {
        requests: Amounts::from([("cpu", 0)]),
        ..PodDemand::default()
    };
    assert_eq!(
        pre_filter(&pod, &KoordinatorArgs::default(), Fidelity::Sound),
        Ok(None)
    );
}

#[test]
fn a_full_pcpus_only_node_binds_only_lse_and_lsr_pods_in_sound_mode() {
    for (fidelity, bound) in [(Fidelity::Exact, true), (Fidelity::Sound, false)] {
        let mut node = node(machine(1, 1, 4, 2), fidelity);
        node.bind_policy = Some(NodeBindPolicy::FullPcpusOnly);
        let shared = place(&mut node, "ls", &pod(KoordinatorQos::Ls, 2000, "{}", "{}"));
        assert_eq!(
            shared.map(|allocation| allocation.is_some()),
            Ok(bound),
            "{fidelity:?}"
        );
        let fraction = place(&mut node, "half", &pod(KoordinatorQos::Ls, 500, "{}", "{}"));
        assert_eq!(fraction.is_err(), bound, "{fidelity:?}");
        let own = place(
            &mut node,
            "lsr",
            &pod(KoordinatorQos::Lsr, 2000, "{}", "{}"),
        );
        assert!(own.is_ok_and(|allocation| allocation.is_some_and(|own| own.cpus.len() == 2)));
    }
}

#[test]
fn a_full_pcpus_only_node_rejects_requests_that_are_no_multiple_of_a_core() {
    let mut node = node(machine(1, 1, 4, 2), Fidelity::Sound);
    node.bind_policy = Some(NodeBindPolicy::FullPcpusOnly);
    let rejection = place(
        &mut node,
        "odd",
        &pod(KoordinatorQos::Lsr, 3000, "{}", "{}"),
    );
    assert_eq!(
        rejection,
        Err("node(s) requested cpus not multiple cpus per core".into())
    );
}

#[test]
fn a_full_pcpus_only_node_rejects_pods_that_prefer_to_spread_in_sound_mode() {
    let spec = r#"{"preferredCPUBindPolicy":"SpreadByPCPUs"}"#;
    for (fidelity, rejected) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
        let mut node = node(machine(1, 1, 4, 2), fidelity);
        node.bind_policy = Some(NodeBindPolicy::FullPcpusOnly);
        let outcome = place(
            &mut node,
            "pod",
            &pod(KoordinatorQos::Lsr, 2000, spec, "{}"),
        );
        assert_eq!(outcome.is_err(), rejected, "{fidelity:?}");
    }
}

#[test]
fn a_node_that_spreads_gives_every_cpu_a_core_of_its_own_and_rejects_what_needs_siblings() {
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut node = node(machine(1, 1, 4, 2), fidelity);
        node.bind_policy = Some(NodeBindPolicy::SpreadByPcpus);
        let wide = place(
            &mut node,
            "five",
            &pod(KoordinatorQos::Lsr, 5000, "{}", "{}"),
        );
        assert_eq!(
            wide,
            Err("not enough cpus available to satisfy request".into()),
            "{fidelity:?}"
        );
        let four = place(
            &mut node,
            "four",
            &pod(KoordinatorQos::Lsr, 4000, "{}", "{}"),
        );
        let own = four.expect("four cores").expect("CPUs").cpus;
        assert_eq!(own.to_string(), "0,2,4,6", "{fidelity:?}");
    }
}

#[test]
fn unknown_policy_values_are_rejected_with_the_valid_ones_in_sound_mode() {
    let pods = [
        pod(
            KoordinatorQos::Lsr,
            2000,
            r#"{"requiredCPUBindPolicy":"PCPUOnly"}"#,
            "{}",
        ),
        pod(
            KoordinatorQos::Lsr,
            2000,
            r#"{"preferredCPUExclusivePolicy":"Socket"}"#,
            "{}",
        ),
        pod(
            KoordinatorQos::Lsr,
            2000,
            "{}",
            r#"{"numaTopologyPolicy":"strict"}"#,
        ),
        pod(
            KoordinatorQos::Lsr,
            2000,
            "{}",
            r#"{"singleNUMANodeExclusive":"yes"}"#,
        ),
    ];
    for pod in pods {
        let rejection = pre_filter(&pod, &KoordinatorArgs::default(), Fidelity::Sound)
            .expect_err("an unknown word");
        assert!(
            rejection.to_string().contains("; known are "),
            "{rejection}"
        );
        assert!(pre_filter(&pod, &KoordinatorArgs::default(), Fidelity::Exact).is_ok());
    }
    let mut node = node(machine(1, 1, 4, 2), Fidelity::Sound);
    node.bind_policy = NodeBindPolicy::parse("PCPUOnly");
    let rejection = place(&mut node, "pod", &pod(KoordinatorQos::Ls, 500, "{}", "{}"));
    assert!(rejection.is_err_and(|text| text.contains("FullPCPUsOnly")));
}

#[test]
fn exclusive_policy_default_is_the_scheduler_default() {
    let args = KoordinatorArgs {
        default_exclusive: Some(ExclusivePolicy::PcpuLevel),
        ..KoordinatorArgs::default()
    };
    let pod = pod(
        KoordinatorQos::Lsr,
        2000,
        r#"{"preferredCPUExclusivePolicy":"Default"}"#,
        "{}",
    );
    for (fidelity, level) in [
        (Fidelity::Exact, ExclusiveLevel::Nothing),
        (Fidelity::Sound, ExclusiveLevel::Core),
    ] {
        let state = pre_filter(&pod, &args, fidelity)
            .expect("a good pod")
            .expect("it requests something");
        assert_eq!(state.exclusive, level, "{fidelity:?}");
    }
}

#[test]
fn constrained_burst_restricts_a_pod_to_a_numa_node_whose_pool_fits_its_limit() {
    let spec = r#"{"preferredCPUBindPolicy":"ConstrainedBurst"}"#;
    let mut node = node(machine(2, 1, 4, 2), Fidelity::Sound);
    let own = pod(
        KoordinatorQos::Lsr,
        4000,
        "{}",
        r#"{"numaTopologyPolicy":"SingleNUMANode"}"#,
    );
    place(&mut node, "lsr", &own).expect("room for four");
    let mut burst = pod(KoordinatorQos::Ls, 1000, spec, "{}");
    burst.limits = Amounts::from([("cpu", 6000)]);
    let placed = place(&mut node, "burst", &burst)
        .expect("NUMA node 1 has eight")
        .expect("restricted to a NUMA node");
    let nodes: NodeSet = placed.numa.iter().map(|part| part.node).collect();
    assert_eq!(
        (nodes, placed.cpus.is_empty()),
        (NodeSet::from_bits(0b10), true)
    );
    burst.limits = Amounts::from([("cpu", 9000)]);
    let rejection = place(&mut node, "large", &burst);
    assert!(rejection.is_err_and(|text| text.contains("9000m") && text.contains("8000m")));
    let exact = state(&burst, Fidelity::Exact);
    assert_eq!(exact.burst_milli, None, "Koordinator ignores it");
}

#[test]
fn under_every_numa_policy_constrained_burst_keeps_to_numa_nodes_whose_pools_fit_the_limit() {
    let spec = r#"{"preferredCPUBindPolicy":"ConstrainedBurst"}"#;
    let single = r#"{"numaTopologyPolicy":"SingleNUMANode"}"#;
    for policy in ["SingleNUMANode", "Restricted", "BestEffort"] {
        let own = format!(r#"{{"numaTopologyPolicy":"{policy}"}}"#);
        let mut node = node(machine(2, 1, 4, 2), Fidelity::Sound);
        let lsr = pod(KoordinatorQos::Lsr, 4000, "{}", single);
        let lsr = place(&mut node, "lsr", &lsr).expect("room for four");
        let taken = lsr.expect("CPUs").numa[0].node;
        // Two pods that share fill the other NUMA node but for a CPU: its pool stays as large.
        let shares = pod(KoordinatorQos::Ls, 7000, "{}", single);
        let other = place(&mut node, "shares", &shares).expect("room for seven");
        assert_ne!(other.expect("aligned").numa[0].node, taken, "{policy}");
        let mut burst = pod(KoordinatorQos::Ls, 1000, spec, &own);
        burst.limits = Amounts::from([("cpu", 6000)]);
        let placed = place(&mut node, "burst", &burst)
            .expect("eight CPUs in the pool of the fuller NUMA node")
            .expect("aligned");
        let nodes: Vec<_> = placed.numa.iter().map(|part| part.node).collect();
        assert!(!nodes.contains(&taken), "{policy}: four are too few");
        assert_eq!(placed.numa[0].amounts.get("cpu"), 1000, "{policy}");
        burst.limits = Amounts::from([("cpu", 9000)]);
        let rejection = place(&mut node, "large", &burst);
        assert!(
            rejection.is_err_and(|text| text.contains("9000m") && text.contains("8000m")),
            "{policy}"
        );
    }
}

#[test]
fn with_one_cpu_per_core_binding_is_full_pcpus_and_exclusivity_by_numa_node() {
    let spec =
        r#"{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}"#;
    let pod = pod(KoordinatorQos::Lsr, 2000, spec, "{}");
    let terms = |fidelity| {
        let node = node(machine(2, 1, 8, 1), fidelity);
        EffectivePolicy::of(&state(&pod, fidelity), &node, &KoordinatorArgs::default())
            .expect("no conflict")
    };
    let sound = terms(Fidelity::Sound);
    assert_eq!(
        (sound.binding, sound.exclusive),
        (Some(CpuBinding::FullPcpus), ExclusiveLevel::NumaNode)
    );
    let exact = terms(Fidelity::Exact);
    assert_eq!(
        (exact.binding, exact.exclusive),
        (Some(CpuBinding::SpreadByPcpus), ExclusiveLevel::Core)
    );
}

#[test]
fn numa_ids_with_gaps_are_never_used_as_positions() {
    let rows = (0..8).map(|at| ReportedCpu {
        cpu: pinfold_core::cpu_set::CpuId::new(at).expect("small"),
        core: i64::from(at / 2),
        node: if at < 4 { 3 } else { 40 },
        socket: 0,
    });
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut node = node(
            KoordinatorTopology::from_report(rows.clone(), fidelity),
            fidelity,
        );
        for name in ["a", "b"] {
            let pod = pod(
                KoordinatorQos::Lsr,
                4000,
                "{}",
                r#"{"numaTopologyPolicy":"SingleNUMANode"}"#,
            );
            let own = place(&mut node, name, &pod)
                .expect("a NUMA node each")
                .expect("aligned");
            assert_eq!(own.numa.len(), 1);
        }
        assert_eq!(
            node.ledger.occupancy().single,
            NodeSet::from_bits(1 << 3 | 1 << 40)
        );
    }
}

#[test]
fn best_effort_spans_numa_nodes_if_the_pod_fits_no_single_one() {
    let mut node = node(machine(2, 1, 4, 2), Fidelity::Sound);
    let numa = r#"{"numaTopologyPolicy":"BestEffort"}"#;
    place(&mut node, "a", &pod(KoordinatorQos::Lsr, 6000, "{}", numa)).expect("room");
    place(&mut node, "b", &pod(KoordinatorQos::Lsr, 6000, "{}", numa)).expect("room");
    let across = place(&mut node, "c", &pod(KoordinatorQos::Lsr, 4000, "{}", numa)).expect("2 + 2");
    assert_eq!(
        across.map(|own| (own.cpus.len(), own.numa.len())),
        Some((4, 2))
    );
    let strict = r#"{"numaTopologyPolicy":"Restricted"}"#;
    let mut node = self::node(machine(2, 1, 4, 2), Fidelity::Sound);
    place(
        &mut node,
        "a",
        &pod(KoordinatorQos::Lsr, 6000, "{}", strict),
    )
    .expect("room");
    place(
        &mut node,
        "b",
        &pod(KoordinatorQos::Lsr, 6000, "{}", strict),
    )
    .expect("room");
    let rejected = place(
        &mut node,
        "c",
        &pod(KoordinatorQos::Lsr, 4000, "{}", strict),
    );
    assert!(rejected.is_err_and(|text| text.starts_with("Unaligned NUMA Hint cause cpu")));
}

#[test]
fn a_node_without_enough_free_cpus_is_rejected_in_filter_in_sound_mode() {
    for (fidelity, in_filter) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
        let mut node = node(machine(1, 1, 2, 2), fidelity);
        place(&mut node, "a", &pod(KoordinatorQos::Lsr, 3000, "{}", "{}")).expect("room");
        let late = state(&pod(KoordinatorQos::Lsr, 2000, "{}", "{}"), fidelity);
        let args = KoordinatorArgs::default();
        assert_eq!(
            filter(&late, &node, &args).is_err(),
            in_filter,
            "{fidelity:?}"
        );
        assert!(reserve(&late, &node, &args, None).is_err());
    }
}

#[test]
fn an_unknown_numa_policy_is_an_error_where_koordinator_panics() {
    let mut node = node(machine(1, 1, 2, 2), Fidelity::Exact);
    node.numa_policy = NumaPolicy::parse("None");
    let state = state(&pod(KoordinatorQos::Ls, 1000, "{}", "{}"), Fidelity::Exact);
    let rejection = filter(&state, &node, &KoordinatorArgs::default()).expect_err("unknown");
    assert_eq!(rejection.code, FrameworkCode::Error);
}

#[test]
fn pre_bind_writes_the_used_policy_if_the_pod_has_none() {
    let mut node = node(machine(1, 1, 4, 2), Fidelity::Exact);
    let args = KoordinatorArgs::default();
    let written = |node: &KoordinatorNode, text: &str| {
        let pod = pod(KoordinatorQos::Lsr, 2000, text, "{}");
        let spec = pre_bind(&state(&pod, Fidelity::Exact), node, &args, &pod.spec);
        spec.map(|spec| serde_json::to_string(&spec).expect("as text"))
    };
    let preferred = r#"{"preferredCPUBindPolicy":"FullPCPUs"}"#;
    assert_eq!(written(&node, "{}").as_deref(), Some(preferred));
    assert_eq!(
        written(&node, r#"{"preferredCPUBindPolicy":"Default"}"#).as_deref(),
        Some(preferred)
    );
    assert_eq!(written(&node, preferred), None);
    node.bind_policy = Some(NodeBindPolicy::FullPcpusOnly);
    assert_eq!(
        written(&node, "{}").as_deref(),
        Some(r#"{"requiredCPUBindPolicy":"FullPCPUs"}"#)
    );
}

fn any_pod() -> impl Strategy<Value = PodDemand> {
    let specs = [
        "{}",
        r#"{"preferredCPUBindPolicy":"SpreadByPCPUs"}"#,
        r#"{"requiredCPUBindPolicy":"FullPCPUs"}"#,
        r#"{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"NUMANodeLevel"}"#,
        r#"{"preferredCPUBindPolicy":"ConstrainedBurst"}"#,
    ];
    let numas = [
        "{}",
        r#"{"numaTopologyPolicy":"BestEffort"}"#,
        r#"{"numaTopologyPolicy":"Restricted"}"#,
        r#"{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}"#,
    ];
    let qos = prop_oneof![3 => Just(KoordinatorQos::Lsr), 1 => Just(KoordinatorQos::Lse), 1 => Just(KoordinatorQos::Ls)];
    (
        qos,
        1_i64..7,
        proptest::sample::select(specs.to_vec()),
        proptest::sample::select(numas.to_vec()),
    )
        .prop_map(|(qos, cpus, spec, numa)| pod(qos, cpus * 1000, spec, numa))
}

proptest! {
    /// In sound mode no CPU is assigned twice or though it is reserved, a pod gets as many CPUs as it requests,
    /// `reserve` succeeds if `filter` did, and removing a pod restores the node.
    #[test]
    fn cpus_are_assigned_once_and_released(
        pods in proptest::collection::vec((any_pod(), any::<bool>()), 1..12),
        (sockets, nodes, threads) in (1_i64..3, 1_i64..3, 1_i64..3),
        reserved in proptest::collection::btree_set(0_u32..8, 0..3),
        ratio in prop_oneof![2 => Just(1.0), 1 => Just(1.5)],
    ) {
        let reserved: CpuSet = reserved.into_iter().filter_map(pinfold_core::cpu_set::CpuId::new).collect();
        let topology = machine(sockets, nodes, 4, threads);
        let report = KoordinatorReport::new(topology.clone(), &reserved, CpuSet::new(), zones(&topology, 64));
        let mut node = self::node(topology, Fidelity::Sound);
        node.report = Some(report);
        let ratios = Ratios([(CPU.into(), ratio)].into());
        node.allocatable = ratios.amplify(&node.allocatable);
        node.ratios = RatioAnnotation::Ratios(ratios);
        for (at, (pod, stays)) in pods.into_iter().enumerate() {
            let name: PodUid = format!("pod-{at}").into();
            let before = node.ledger.clone();
            let args = KoordinatorArgs::default();
            let state = state(&pod, Fidelity::Sound);
            let Ok(placement) = filter(&state, &node, &args) else { continue };
            prop_assert!((0..=100).contains(&score(&state, &node, &args, placement.as_ref())));
            let allocation = reserve(&state, &node, &args, placement.as_ref());
            prop_assert!(allocation.is_ok(), "filter promised, reserve rejected: {:?}", allocation);
            let allocation = allocation.unwrap_or_default();
            let expected = FilterAndScore {
                placement,
                score: score(&state, &node, &args, placement.as_ref()),
                allocation: allocation.clone(),
            };
            prop_assert_eq!(filter_and_score(&state, &node, &args), Ok(expected));
            if let Some(own) = allocation.as_ref().filter(|_| state.bind) {
                prop_assert!(own.cpus.is_disjoint(before.held().cpus()));
                prop_assert!(own.cpus.is_disjoint(&reserved));
                prop_assert_eq!(own.cpus.len(), state.cpus);
            }
            node.assume(name.clone(), &pod.requests, allocation);
            if !stays {
                node.forget(&name, &pod.requests);
                prop_assert_eq!(&node.ledger, &before);
            }
        }
    }
}
