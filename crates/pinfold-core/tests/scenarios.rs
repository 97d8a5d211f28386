//! Scenarios of NUMA placement on whole nodes: each checks the decision and the facts behind it.

#![expect(clippy::unwrap_used, reason = "a scenario that cannot be set up fails")]

use std::sync::Arc;

use pinfold_core::cpu::CpuError;
use pinfold_core::cpu_set::{CpuId, CpuList, CpuSet};
use pinfold_core::decision::{Decision, RejectionReason, ResourceManager};
use pinfold_core::device::{Device, NoPreference};
use pinfold_core::explanation::{Cause, ResourceFacts};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::merge::{HintSummary, MergeRule, NoPreferred};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;

const NIC: &str = "example.com/nic";
const GPU: &str = "example.com/gpu";
const HUGE: &str = "hugepages-2Mi";

/// `nodes` NUMA nodes, each a socket; siblings are numbered after all first threads.
fn machine(nodes: u32, cores: u32, threads: u32) -> Arc<Machine> {
    let core = |core: u32, socket: u32| Core {
        id: core,
        socket,
        die: None,
        l3: None,
        threads: (0..threads)
            .map(|thread| CpuId::new(core + thread * nodes * cores).unwrap())
            .collect(),
    };
    let node = |id: u32| NumaNode {
        id: NodeId::new(i64::from(id)).unwrap(),
        memory: 16 << 30,
        hugepages: vec![HugePages {
            size_kib: 2048,
            count: 512,
        }],
        distances: Vec::new(),
        cores: (id * cores..(id + 1) * cores)
            .map(|at| core(at, id))
            .collect(),
    };
    let machine = Machine::new(MachineParts {
        nodes: (0..nodes).map(node).collect(),
        num_cpus: (nodes * cores * threads) as usize,
        num_sockets: nodes as usize,
        ..MachineParts::default()
    });
    Arc::new(machine.unwrap())
}

fn list(rows: &[(&str, &str)]) -> ResourceList {
    let row = |&(name, amount): &(&str, &str)| (name.into(), amount.parse().unwrap());
    rows.iter().map(row).collect()
}

/// Static CPU and memory managers; CPU 0 and some memory of node 0 are reserved for the system.
fn settings(policy: &str, options: &[&str]) -> Settings {
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        cpu_options: options
            .iter()
            .map(|&name| (name.into(), "true".into()))
            .collect(),
        reserved_cpu: Some("1".parse().unwrap()),
        reserved_cpus: Some(CpuList::from(&CpuSet::single(CpuId::new(0).unwrap()))),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: list(&[("memory", "1Gi")]),
        }],
        node_reservation: list(&[("memory", "1Gi")]),
        ..Settings::default()
    }
}

fn ledger(machine: Arc<Machine>, settings: Settings) -> Ledger {
    Ledger::new(Arc::new(Rules::new(machine, settings).unwrap()))
}

/// A Guaranteed pod with one container.
fn pod(uid: &str, rows: &[(&str, &str)]) -> Arc<Pod> {
    let mut amounts = list(rows);
    amounts
        .entry("memory".into())
        .or_insert("1Gi".parse().unwrap());
    let app = Container::guaranteed("app", amounts);
    Arc::new(Pod::new(uid, [app]))
}

fn admit(ledger: &mut Ledger, pod: &Arc<Pod>) -> Decision {
    ledger.admit(pod, &mut NoPreference).unwrap().decision
}

/// Devices `id-0`, `id-1` and so on, near these nodes.
fn offer(ledger: &mut Ledger, resource: &str, near: &[i64]) {
    let device = |(at, &node): (usize, &i64)| {
        let device = Device {
            numa: Some(vec![node]),
            healthy: true,
        };
        (format!("id-{at}").into(), device)
    };
    let devices = near.iter().enumerate().map(device).collect();
    ledger.set_devices(resource.into(), Some(devices));
}

fn node(id: i64) -> NodeSet {
    NodeSet::single(NodeId::new(id).unwrap())
}

/// The number of CPUs of the only container on every node.
fn cpus_by_node(ledger: &Ledger, decision: &Decision) -> Vec<usize> {
    let cpus = decision.assignment().unwrap().containers[0]
        .cpus
        .clone()
        .unwrap();
    let nodes = ledger.rules().topology().nodes().iter();
    nodes.map(|node| node.cpus.common_len(&cpus)).collect()
}

fn fact<'d>(decision: &'d Decision, resource: &str) -> &'d ResourceFacts {
    let alignment = decision.explanation.alignments.last().unwrap();
    let mut facts = alignment.resources.iter();
    facts
        .find(|facts| facts.resource.as_str() == resource)
        .unwrap()
}

fn free(facts: &ResourceFacts) -> Vec<u64> {
    facts.nodes.iter().map(|node| node.free).collect()
}

#[test]
fn story_01_hugepages_cpus_and_network_card_come_from_one_node() {
    let mut ledger = ledger(machine(2, 8, 1), settings("single-numa-node", &[]));
    offer(&mut ledger, NIC, &[1]);
    let packets = |uid| pod(uid, &[("cpu", "4"), (HUGE, "64Mi"), (NIC, "1")]);

    let decision = admit(&mut ledger, &packets("fast"));
    let app = &decision.assignment().unwrap().containers[0];
    assert_eq!(app.affinity.mask, Some(node(1)));
    assert_eq!(cpus_by_node(&ledger, &decision), [0, 4]);
    assert!(
        app.memory
            .as_ref()
            .unwrap()
            .iter()
            .all(|block| block.nodes == node(1))
    );
    assert_eq!(app.devices.get(NIC).unwrap().len(), 1);
    let alignment = &decision.explanation.alignments[0];
    assert_eq!(alignment.merge.decided_by, MergeRule::Preferred);
    assert_eq!(free(fact(&decision, NIC)), [0, 1]);

    // The only card is in use, and the rejection says so.
    let rejected = admit(&mut ledger, &packets("second"));
    assert_eq!(
        rejected.rejection().unwrap().reason,
        RejectionReason::TopologyAffinityError
    );
    let (card, merge) = (
        fact(&rejected, NIC),
        &rejected.explanation.alignments[0].merge,
    );
    assert_eq!(
        merge.no_preferred,
        Some(NoPreferred::Unsatisfiable {
            resource: card.merge_index.unwrap()
        })
    );
    assert_eq!(
        (card.manager, card.requested, card.free, card.total),
        (ResourceManager::Device, 1, 0, 1)
    );
    assert_eq!(card.hints, Some(HintSummary::Unsatisfiable));
    assert!(fact(&rejected, "cpu").free >= 4);

    // The card is not advertised any more.
    offer(&mut ledger, NIC, &[]);
    let rejected = admit(&mut ledger, &packets("third"));
    let rejection = rejected.rejection().unwrap();
    assert_eq!(rejection.manager, Some(ResourceManager::Device));
    let short = &rejected.explanation.shortage[0];
    assert_eq!(
        (short.resource.as_str(), short.requested, short.total),
        (NIC, 1, 0)
    );
}

#[test]
fn story_02_an_accelerator_and_its_cpus_share_a_node() {
    let training = || pod("training", &[("cpu", "8"), (GPU, "1")]);
    // Both cards are on node 1, where 16 CPUs are free, or only 4 if another pod was admitted before.
    let node_with = |policy: &str, crowded: bool| {
        let mut ledger = ledger(machine(2, 16, 1), settings(policy, &[]));
        offer(&mut ledger, GPU, &[1, 1]);
        if crowded {
            let low = admit(&mut ledger, &pod("low", &[("cpu", "15")]));
            assert_eq!(cpus_by_node(&ledger, &low), [15, 0]);
            let high = admit(&mut ledger, &pod("high", &[("cpu", "12")]));
            assert_eq!(cpus_by_node(&ledger, &high), [0, 12]);
            ledger.release(&"low".into()).unwrap();
        }
        ledger
    };

    let mut roomy = node_with("restricted", false);
    let decision = admit(&mut roomy, &training());
    assert_eq!(cpus_by_node(&roomy, &decision), [0, 8]);
    let merge = &decision.explanation.alignments[0].merge;
    assert_eq!(merge.decided_by, MergeRule::Preferred);

    let rejected = admit(&mut node_with("restricted", true), &training());
    assert_eq!(
        rejected.rejection().unwrap().reason,
        RejectionReason::TopologyAffinityError
    );
    let merge = &rejected.explanation.alignments[0].merge;
    assert_eq!(merge.no_preferred, Some(NoPreferred::NoCommonMask));
    assert_eq!(free(fact(&rejected, "cpu")), [15, 4]);
    assert_eq!(free(fact(&rejected, GPU)), [0, 2]);

    let mut lenient = node_with("best-effort", true);
    let across = admit(&mut lenient, &training());
    assert_eq!(cpus_by_node(&lenient, &across), [4, 4]);
    let app = &across.assignment().unwrap().containers[0];
    assert_eq!(app.devices.get(GPU).unwrap().len(), 1);
    let alignment = &across.explanation.alignments[0];
    assert!(alignment.admitted && !alignment.hint.preferred);
    assert_eq!(
        alignment.merge.no_preferred,
        Some(NoPreferred::NoCommonMask)
    );
}

#[test]
fn story_03_the_options_of_the_static_policy_keep_their_meaning() {
    let mut whole = ledger(machine(2, 4, 2), settings("none", &["full-pcpus-only"]));
    let rejected = admit(&mut whole, &pod("odd", &[("cpu", "3")]));
    assert_eq!(
        rejected.rejection().unwrap().reason,
        RejectionReason::SMTAlignmentError
    );
    let odd = CpuError::NotWholeCores {
        requested: 3,
        per_core: 2,
    };
    assert_eq!(rejected.explanation.cause, Some(Cause::Cpu(odd)));
    // CPU 0 is reserved, so its core is split: 15 CPUs are free, 14 can be assigned.
    let cpu = &rejected.explanation.shortage[0];
    assert_eq!((cpu.total, cpu.free, free(cpu)), (15, 14, vec![6, 8]));
    let even = admit(&mut whole, &pod("even", &[("cpu", "4")]));
    let cpus = even.assignment().unwrap().containers[0]
        .cpus
        .clone()
        .unwrap();
    assert!(!cpus.contains(CpuId::new(0).unwrap()), "reserved");
    assert_eq!(cpus.len(), 4);

    let mut spread = ledger(
        machine(2, 8, 1),
        settings("best-effort", &["distribute-cpus-across-numa"]),
    );
    let ten = admit(&mut spread, &pod("ten", &[("cpu", "10")]));
    assert_eq!(cpus_by_node(&spread, &ten), [5, 5]);
    let mut packed = ledger(machine(2, 8, 1), settings("best-effort", &[]));
    let ten = admit(&mut packed, &pod("ten", &[("cpu", "10")]));
    assert_eq!(cpus_by_node(&packed, &ten), [2, 8]);
}

#[test]
fn story_05_enough_in_total_but_badly_spread_is_not_enough() {
    let node_with = |others: &[&str]| {
        let mut ledger = ledger(machine(2, 5, 1), settings("single-numa-node", &[]));
        for (at, cpus) in others.iter().enumerate() {
            assert!(
                admit(&mut ledger, &pod(&format!("other-{at}"), &[("cpu", cpus)])).is_admitted()
            );
        }
        ledger
    };
    let (mut a, mut b) = (node_with(&["2", "3"]), node_with(&["5"]));

    let rejected = admit(&mut a, &pod("four", &[("cpu", "4")]));
    assert_eq!(
        rejected.rejection().unwrap().reason,
        RejectionReason::TopologyAffinityError
    );
    let cpu = fact(&rejected, "cpu");
    assert_eq!((cpu.requested, cpu.free, free(cpu)), (4, 4, vec![2, 2]));
    let merge = &rejected.explanation.alignments[0].merge;
    assert_eq!(
        merge.no_preferred,
        Some(NoPreferred::PrefersNothing {
            resource: cpu.merge_index.unwrap()
        })
    );

    let admitted = admit(&mut b, &pod("four", &[("cpu", "4")]));
    assert_eq!(cpus_by_node(&b, &admitted), [4, 0]);
    assert_eq!(free(fact(&admitted, "cpu")), [4, 0]);
}

#[test]
fn story_07_the_kubelet_packs_without_a_policy_and_takes_the_lowest_node_with_one() {
    // Six CPUs are free on node 0 and two on node 1.
    let story = |policy: &str| {
        let mut ledger = ledger(machine(2, 7, 1), settings(policy, &[]));
        for (uid, cpus, on) in [("low", "6", [6, 0]), ("high", "5", [0, 5])] {
            let decision = admit(&mut ledger, &pod(uid, &[("cpu", cpus)]));
            assert_eq!(cpus_by_node(&ledger, &decision), on, "{uid}");
        }
        ledger.release(&"low".into()).unwrap();
        let two = admit(&mut ledger, &pod("two", &[("cpu", "2")]));
        (cpus_by_node(&ledger, &two), two)
    };
    let (cpus, packed) = story("none");
    assert_eq!(cpus, [0, 2], "the node with less free is filled up first");
    assert!(packed.explanation.alignments.is_empty());
    let (cpus, lowest) = story("restricted");
    assert_eq!(
        cpus,
        [2, 0],
        "both nodes are preferred; the lower number wins"
    );
    let alignment = &lowest.explanation.alignments[0];
    assert_eq!(alignment.merge.decided_by, MergeRule::Preferred);
    assert_eq!(free(&alignment.resources[0]), [6, 2]);
}
