//! Compares remedies with brute force on small machines: every one is admitted, and nothing smaller of its kind is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::decision::RejectionReason;
use crate::device::{AdvertisedDevices, Device, NoPreference};
use crate::fidelity::Fidelity;
use crate::ledger::Rules;
use crate::machine::{HugePages, Machine, MachineParts, UniformMachine};
use crate::memory::MemoryReservation;
use crate::pod::{Container, ResourceList};
use crate::settings::CpuManagerPolicy;
use crate::settings::MemoryManagerPolicy;
use crate::settings::Settings;
use crate::settings::TopologyScope;

mod moves;

const MIB: u64 = 1 << 20;
const NIC: &str = "example.com/nic";
const HUGE: &str = "hugepages-2Mi";

/// Random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    /// One of `0..sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn chance(&mut self, of_ten: u64) -> bool {
        self.roll(10) < of_ten
    }
}

fn machine(nodes: u32, cores: u32, threads: u32, memory: impl Fn(u32) -> u64) -> Machine {
    let uniform = Machine::uniform(UniformMachine {
        sockets: nodes,
        nodes_per_socket: 1,
        cores_per_node: cores,
        threads_per_core: threads,
        memory_per_node: 0,
    });
    let mut parts = MachineParts::from(uniform.unwrap());
    for node in &mut parts.nodes {
        node.memory = memory(node.id.get()) * MIB;
        node.hugepages.push(HugePages {
            size_kib: 2048,
            count: 4,
        });
    }
    Machine::new(parts).unwrap()
}

fn list(rows: &[(&str, u64)]) -> ResourceList {
    let quantity = |&(name, amount): &(&str, u64)| {
        let text = match crate::demand::is_memory(&name.into()) {
            true => format!("{amount}Mi"),
            false => amount.to_string(),
        };
        (name.into(), text.parse().unwrap())
    };
    rows.iter().map(quantity).collect()
}

fn container(name: &str, rows: &[(&str, u64)]) -> Container {
    Container::guaranteed(name, list(rows))
}

fn pod(uid: &str, containers: Vec<Container>) -> Arc<Pod> {
    Arc::new(Pod::new(uid, containers))
}

fn settings(policy: &str) -> Settings {
    let reservation = MemoryReservation {
        numa_node: 0,
        limits: list(&[("memory", 1)]),
    };
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("1".parse().unwrap()),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![reservation],
        node_reservation: list(&[("memory", 1)]),
        alpha_cpu_options: true,
        ..Settings::default()
    }
}

fn nics(on: &[i64]) -> AdvertisedDevices {
    let device = |(at, &node): (usize, &i64)| {
        let numa = (node >= 0).then(|| vec![node]);
        (
            format!("nic-{at}").into(),
            Device {
                numa,
                healthy: true,
            },
        )
    };
    on.iter().enumerate().map(device).collect()
}

/// A random small node with pods on it.
fn random_ledger(dice: &mut Dice, fidelity: Fidelity) -> Ledger {
    let nodes = 1 + u32::try_from(dice.roll(3)).unwrap();
    let threads = 1 + u32::try_from(dice.roll(2)).unwrap();
    let memory: Vec<u64> = (0..nodes).map(|_| 10 + dice.roll(12)).collect();
    let machine = machine(
        nodes,
        2 + u32::try_from(dice.roll(2)).unwrap(),
        threads,
        |id| memory[id as usize],
    );
    let policy = ["none", "best-effort", "restricted", "single-numa-node"]
        [usize::try_from(dice.roll(4)).unwrap()];
    let mut settings = settings(policy);
    settings.fidelity = fidelity;
    settings.topology_scope =
        [TopologyScope::Container, TopologyScope::Pod][usize::from(dice.chance(4))];
    for option in [
        "full-pcpus-only",
        "strict-cpu-reservation",
        "distribute-cpus-across-numa",
    ] {
        if dice.chance(3) {
            settings.cpu_options.insert(option.into(), "true".into());
        }
    }
    let rules = Rules::new(Arc::new(machine), settings).unwrap();
    let mut ledger = Ledger::new(Arc::new(rules));
    let near: Vec<i64> = (0..dice.roll(4))
        .map(|_| i64::try_from(dice.roll(u64::from(nodes) + 1)).unwrap() - 1)
        .collect();
    ledger.set_devices(NIC.into(), Some(nics(&near)));
    for at in 0..dice.roll(4) {
        let other = random_pod(dice, &format!("other-{at}"));
        ledger.admit(&other, &mut NoPreference).unwrap();
    }
    ledger
}

fn random_pod(dice: &mut Dice, uid: &str) -> Arc<Pod> {
    let mut one = |name: String| {
        let mut rows = vec![("cpu", 1 + dice.roll(5)), ("memory", 1 + dice.roll(20))];
        if dice.chance(3) {
            rows.push((HUGE, 2 * (1 + dice.roll(6))));
        }
        if dice.chance(3) {
            rows.push((NIC, 1 + dice.roll(3)));
        }
        container(&name, &rows)
    };
    let mut spec = Pod::clone(&pod(uid, vec![one("app".into())]));
    let more = dice.roll(3);
    let mut one = |name: String| {
        let rows = [("cpu", 1 + dice.roll(3)), ("memory", 1 + dice.roll(12))];
        container(&name, &rows)
    };
    match more {
        0 => spec.containers.push(one("second".into())),
        1 => spec.init_containers.push(one("init".into())),
        _ => {}
    }
    Arc::new(spec)
}

fn fits(ledger: &Ledger, pod: &Pod) -> bool {
    let mut copy = ledger.clone();
    let admission = copy.admit(&Arc::new(pod.clone()), &mut NoPreference);
    admission.unwrap().decision.is_admitted()
}

/// Admits the pod after the change, independently of how the remedy was found.
fn verified(ledger: &Ledger, pod: &Pod, alteration: &Alteration) -> bool {
    let changed = alteration.pod(pod).unwrap();
    match alteration {
        Alteration::Request(_) => fits(ledger, &changed),
        Alteration::Move(plan) => moves::executed(ledger, &Arc::new(changed), plan).is_some(),
        Alteration::Evict(evicted) => {
            let mut copy = ledger.clone();
            for other in evicted {
                copy.release(&other.uid).unwrap();
            }
            fits(&copy, pod)
        }
        _ => {
            let settings = alteration.settings(ledger.rules().settings());
            let settings = ledger.rules().keep_reserved_cpus(settings);
            let rules = Rules::new(ledger.rules().machine().clone(), settings).unwrap();
            fits(&ledger.with_rules(Arc::new(rules)).unwrap(), pod)
        }
    }
}

/// Every amount strictly between the requested and the found one is rejected.
fn no_amount_is_nearer(ledger: &Ledger, pod: &Pod, change: &RequestChange) {
    let grain = match (change.manager, change.resource.as_str()) {
        (ResourceManager::Memory, "memory") => MIB,
        (ResourceManager::Memory, _) => 2 * MIB,
        _ => 1,
    };
    let (low, high) = (change.from.min(change.to), change.from.max(change.to));
    let mut between = low / grain * grain + grain;
    while between < high {
        let nearer = RequestChange {
            to: between,
            ..change.clone()
        };
        let changed = Alteration::Request(vec![nearer]).pod(pod).unwrap();
        assert!(!fits(ledger, &changed), "{between} would fit: {change:?}");
        between += grain;
    }
}

/// No smaller set of evicted pods helps.
fn no_fewer_evictions_help(ledger: &Ledger, pod: &Pod, count: usize) {
    let uids: Vec<PodUid> = ledger
        .admitted_pods()
        .iter()
        .map(|other| other.pod.uid.clone())
        .collect();
    for set in 0_u32..1 << uids.len() {
        if set.count_ones() as usize >= count {
            continue;
        }
        let mut copy = ledger.clone();
        for (at, uid) in uids.iter().enumerate() {
            if set >> at & 1 == 1 {
                copy.release(uid).unwrap();
            }
        }
        assert!(!fits(&copy, pod), "without {set:b}");
    }
}

/// Finds the largest amount that fits by trying all of them.
fn by_trying_everything(
    ledger: &Ledger,
    pod: &Pod,
    change: &RequestChange,
    least: u64,
    grain: u64,
) -> Option<u64> {
    let mut to = change.from.div_ceil(grain) * grain;
    while let Some(lower) = to.checked_sub(grain).filter(|&lower| lower >= least) {
        to = lower;
        let changed = Alteration::Request(vec![RequestChange {
            to,
            ..change.clone()
        }])
        .pod(pod);
        if changed.is_some_and(|changed| fits(ledger, &changed)) {
            return Some(to);
        }
    }
    None
}

fn check(ledger: &Ledger, pod: &Arc<Pod>) -> BTreeMap<&'static str, usize> {
    let before = ledger.state().clone();
    let found = find(ledger, pod, &mut NoPreference, Effort::default()).unwrap();
    assert_eq!(*ledger.state(), before, "the ledger is unchanged");
    let again = find(ledger, pod, &mut NoPreference, Effort::default()).unwrap();
    assert_eq!(found, again, "the search is deterministic");
    assert!(found.complete);
    assert!(found.fitting.is_sorted_by_key(|remedy| remedy.size));
    let mut kinds = BTreeMap::new();
    for remedy in &found.fitting {
        assert!(
            verified(ledger, pod, &remedy.alteration),
            "{:?}",
            remedy.alteration
        );
        assert!(remedy.nearest);
        let kind = match &remedy.alteration {
            Alteration::Request(changes) => {
                if let [change] = &changes[..] {
                    no_amount_is_nearer(ledger, pod, change);
                }
                if changes.len() > 1 {
                    "together"
                } else {
                    changes[0].resource.as_str()
                }
            }
            Alteration::Move(_) => "move",
            Alteration::Evict(evicted) => {
                no_fewer_evictions_help(ledger, pod, evicted.len());
                "release"
            }
            Alteration::Policy { from, to } => {
                for between in TopologyPolicy::ALL
                    .into_iter()
                    .filter(|policy| policy > to && policy < from)
                {
                    let nearer = Alteration::Policy {
                        from: *from,
                        to: between,
                    };
                    assert!(!verified(ledger, pod, &nearer));
                }
                "policy"
            }
            Alteration::Scope { .. } => "scope",
            Alteration::OptionOff { .. } => "option",
        };
        let kind = [
            "together", "cpu", "memory", HUGE, NIC, "move", "release", "policy", "scope", "option",
        ]
        .into_iter()
        .find(|known| *known == kind)
        .unwrap();
        *kinds.entry(kind).or_default() += 1;
    }
    no_amount_is_missed(ledger, pod, &found);
    empty_node_result_is_right(ledger, pod, &found, &mut kinds);
    kinds
}

/// Where an amount has no remedy, no other amount fits.
fn no_amount_is_missed(ledger: &Ledger, pod: &Pod, found: &Remedies) {
    for slot in request_change::Slot::all(ledger, pod) {
        let best = by_trying_everything(ledger, pod, &slot.change, slot.least, slot.grain);
        let offered = found
            .fitting
            .iter()
            .find_map(|remedy| match &remedy.alteration {
                Alteration::Request(changes) => {
                    let [change] = &changes[..] else { return None };
                    let same = change.container == slot.change.container
                        && change.resource == slot.change.resource;
                    (same && change.to < change.from).then_some(change.to)
                }
                _ => None,
            });
        assert_eq!(offered, best, "{:?}", slot.change);
    }
}

fn empty_node_result_is_right(
    ledger: &Ledger,
    pod: &Pod,
    found: &Remedies,
    kinds: &mut BTreeMap<&'static str, usize>,
) {
    let empty = ledger.without_pods();
    match &found.on_empty_node {
        OnEmptyNode::Fits => assert!(fits(&empty, pod)),
        OnEmptyNode::Never { largest } => {
            assert!(!fits(&empty, pod));
            *kinds.entry("never").or_default() += 1;
            for remedy in largest {
                let Alteration::Request(changes) = &remedy.alteration else {
                    panic!("only the pod can change on an empty machine");
                };
                assert!(fits(&empty, &remedy.alteration.pod(pod).unwrap()));
                if let [change] = &changes[..] {
                    no_amount_is_nearer(&empty, pod, change);
                }
            }
        }
    }
}

#[test]
fn every_remedy_is_admitted_and_nothing_nearer_of_its_kind_is() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rejections = 0;
    for seed in 0..1_200 {
        let mut dice = Dice(seed);
        let fidelity = [Fidelity::Sound, Fidelity::Exact][usize::from(seed % 4 == 3)];
        let ledger = random_ledger(&mut dice, fidelity);
        let pod = random_pod(&mut dice, "new");
        if fits(&ledger, &pod) {
            continue;
        }
        rejections += 1;
        for (kind, count) in check(&ledger, &pod) {
            *kinds.entry(kind).or_default() += count;
        }
    }
    assert!(rejections > 300, "only {rejections} rejections");
    for kind in [
        "together", "cpu", "memory", HUGE, NIC, "move", "release", "policy", "scope", "option",
        "never",
    ] {
        assert!(
            kinds.get(kind).is_some_and(|&count| count > 5),
            "{kind}: {kinds:?}"
        );
    }
}

#[test]
fn a_pod_that_fits_needs_no_remedy() {
    let rules = Rules::new(Arc::new(machine(2, 2, 1, |_| 16)), settings("restricted")).unwrap();
    let ledger = Ledger::new(Arc::new(rules));
    let pod = pod("new", vec![container("app", &[("cpu", 1), ("memory", 1)])]);
    let found = find(&ledger, &pod, &mut NoPreference, Effort::default()).unwrap();
    assert!(found.decision.is_admitted());
    assert!(found.fitting.is_empty());
    assert_eq!((found.tried, found.complete), (1, true));
}

#[test]
fn cpus_that_do_not_fill_cores_may_also_be_rounded_up() {
    let mut settings = settings("none");
    settings
        .cpu_options
        .insert("full-pcpus-only".into(), "true".into());
    let rules = Rules::new(Arc::new(machine(2, 4, 2, |_| 16)), settings).unwrap();
    let ledger = Ledger::new(Arc::new(rules));
    let pod = pod("new", vec![container("app", &[("cpu", 3), ("memory", 1)])]);
    let found = find(&ledger, &pod, &mut NoPreference, Effort::default()).unwrap();
    assert_eq!(
        found.decision.rejection().unwrap().reason,
        RejectionReason::SMTAlignmentError
    );
    let changes: Vec<u64> = found
        .fitting
        .iter()
        .filter_map(|remedy| match &remedy.alteration {
            Alteration::Request(changes) => Some(changes[0].to),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [2, 4]);
    let off = found.fitting.last().unwrap();
    assert_eq!(
        off.alteration,
        Alteration::OptionOff {
            of: OptionOwner::CpuManager,
            name: "full-pcpus-only".into()
        }
    );
}

#[test]
fn the_number_of_admissions_is_bounded() {
    let rules = Rules::new(
        Arc::new(machine(4, 16, 2, |_| 64)),
        settings("single-numa-node"),
    )
    .unwrap();
    let mut ledger = Ledger::new(Arc::new(rules));
    for at in 0..40 {
        let other = pod(
            &format!("other-{at}"),
            vec![container("app", &[("cpu", 2), ("memory", 3)])],
        );
        ledger.admit(&other, &mut NoPreference).unwrap();
    }
    let pod = pod(
        "new",
        vec![container("app", &[("cpu", 32), ("memory", 60)])],
    );
    for (admissions, complete) in [
        (0, false),
        (1, false),
        (2, false),
        (17, false),
        (5_000, true),
    ] {
        let effort = Effort {
            admissions,
            ..Effort::default()
        };
        let found = find(&ledger, &pod, &mut NoPreference, effort).unwrap();
        assert!(
            found.tried <= admissions.max(1),
            "{} of {admissions}",
            found.tried
        );
        assert_eq!(found.complete, complete, "{admissions}");
    }
}

#[test]
fn huge_amounts_do_not_overflow() {
    let rules = Rules::new(Arc::new(machine(2, 2, 1, |_| 16)), settings("restricted")).unwrap();
    let ledger = Ledger::new(Arc::new(rules));
    for (cpu, memory, nic) in [
        ("9000000000000000000", "1Mi", "1"),
        ("1", "9223372036854775807", "1"),
        ("1", "-1", "9223372036854775807"),
        ("-4", "99999999999999999999999E", "-1"),
    ] {
        let rows: ResourceList = [("cpu", cpu), ("memory", memory), (NIC, nic)]
            .into_iter()
            .map(|(name, amount)| (name.into(), amount.parse().unwrap()))
            .collect();
        let mut app = container("app", &[]);
        (app.requests, app.limits) = (rows.clone(), rows);
        let pod = pod("new", vec![app]);
        let found = find(&ledger, &pod, &mut NoPreference, Effort::default()).unwrap();
        for remedy in &found.fitting {
            assert!(verified(&ledger, &pod, &remedy.alteration));
        }
    }
}

#[test]
fn pod_level_resources_grow_where_the_shared_pool_is_empty() {
    let mut settings = settings("restricted");
    settings.topology_scope = TopologyScope::Pod;
    settings.pod_level_resources = true;
    let rules = Rules::new(Arc::new(machine(2, 4, 1, |_| 32)), settings).unwrap();
    let ledger = Ledger::new(Arc::new(rules));
    let mut spec = Pod::clone(&pod(
        "new",
        vec![
            container("own", &[("cpu", 2), ("memory", 4)]),
            container("shares", &[]),
        ],
    ));
    spec.pod_requests = Some(list(&[("cpu", 2), ("memory", 8)]));
    spec.pod_limits = spec.pod_requests.clone();
    let spec = Arc::new(spec);
    let found = find(&ledger, &spec, &mut NoPreference, Effort::default()).unwrap();
    assert!(found.decision.rejection().is_some());
    let changes: Vec<(Option<&str>, u64, u64)> = found
        .fitting
        .iter()
        .filter_map(|remedy| match &remedy.alteration {
            Alteration::Request(changes) => {
                let change = &changes[0];
                Some((
                    change.container.as_ref().map(ContainerName::as_str),
                    change.from,
                    change.to,
                ))
            }
            _ => None,
        })
        .collect();
    assert_eq!(changes, [(None, 2, 3), (Some("own"), 2, 1)]);
}
