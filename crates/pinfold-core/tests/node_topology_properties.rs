//! A node's NodeResourceTopology is enough to predict its kubelet: random machines and histories, published as counts,
//! compared with the ledger that published them.

mod histories;

use std::collections::BTreeMap;
use std::sync::Arc;

use histories::{Random, histories, play, pod};
use pinfold_core::decision::Decision;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Ledger;
use pinfold_core::node_topology::NodeTopology;
use pinfold_core::node_topology::prediction::{Gap, Prediction};
use pinfold_core::node_topology::replica::{DeviceTotal, DeviceTotals, KnownCpus, Replica};
use pinfold_core::pod::Pod;
use pinfold_core::volcano::cpu_detail::CpuRow;

/// The total devices of the node.
fn totals(ledger: &Ledger) -> DeviceTotals {
    let pool = ledger.state().pool();
    let mut totals = DeviceTotals::new();
    for resource in pool.resources() {
        let devices = pool.devices(resource).into_iter().flatten();
        let healthy = devices.filter(|(_, device)| device.healthy).count();
        let free = pool.available(ledger.state().devices(), resource).len();
        let total = DeviceTotal {
            allocatable: healthy as u64,
            free: free as u64,
        };
        totals.insert(resource.clone(), total);
    }
    totals
}

/// The CPUs one by one, as an agent that publishes them would.
fn known_cpus(ledger: &Ledger) -> KnownCpus {
    let topology = ledger.rules().topology();
    let mut rows = Vec::new();
    for cpu in topology.all() {
        let place = topology.cpu_info(cpu).expect("an online CPU");
        rows.push(CpuRow {
            cpu,
            core: place.core,
            node: place.node,
            socket: place.socket,
        });
    }
    let reserved = ledger.rules().reserved_cpus();
    let mut held = topology.all() - ledger.state().cpus().shared();
    held -= &reserved;
    KnownCpus {
        rows,
        reserved,
        held,
    }
}

fn predict(ledger: &Ledger, cpus: Option<&KnownCpus>, pod: &Arc<Pod>) -> Prediction {
    let published = NodeTopology::of(ledger);
    let fidelity = ledger.rules().fidelity();
    let replica = Replica::of(&published, &totals(ledger), cpus, fidelity)
        .expect("what a node publishes can be read");
    replica.predict(pod).expect("a new pod")
}

fn decide(ledger: &Ledger, pod: &Arc<Pod>) -> Decision {
    let admission = ledger.clone().admit(pod, &mut NoPreference);
    admission.expect("a new pod").decision
}

/// Counters of predictions by result.
#[derive(Debug, Default)]
struct Tally {
    admitted: usize,
    rejected: usize,
    uncertain: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn count(&mut self, seed: u64, prediction: &Prediction, kubelet: &Decision) {
        let admits = kubelet.is_admitted();
        match prediction {
            Prediction::Admitted => {
                let why = kubelet.rejection();
                assert!(
                    admits,
                    "seed {seed}: admitted, but the kubelet says {why:?}"
                );
                self.admitted += 1;
            }
            Prediction::Rejected(decision) => {
                let why = decision.rejection();
                assert!(!admits, "seed {seed}: {why:?}, admitted by the kubelet");
                self.rejected += 1;
            }
            Prediction::Uncertain(gap) => {
                let name = match gap {
                    Gap::Cores => "cores",
                    Gap::Division { .. } => "division",
                    _ => "another",
                };
                *self.uncertain.entry(name).or_default() += 1;
            }
        }
    }

    fn doubts(&self, name: &str) -> usize {
        self.uncertain.get(name).copied().unwrap_or(0)
    }

    fn all(&self) -> usize {
        self.admitted + self.rejected + self.uncertain.values().sum::<usize>()
    }
}

#[test]
fn counts_predict_the_kubelet_or_are_uncertain() {
    let mut tally = Tally::default();
    for seed in histories() {
        let mut random = Random(seed + 5);
        play(seed, |_, after, _| {
            let pod = pod(&mut random, 3_000);
            tally.count(seed, &predict(after, None, &pod), &decide(after, &pod));
        });
    }
    println!("several containers: {tally:?}");
    assert!(tally.admitted > 500 && tally.rejected > 500, "{tally:?}");
    assert_eq!(tally.doubts("another"), 0, "{tally:?}");
    assert!(tally.doubts("division") * 10 < tally.all(), "{tally:?}");
}

#[test]
fn a_single_container_is_uncertain_only_where_cores_matter() {
    let mut tally = Tally::default();
    for seed in histories() {
        let mut random = Random(seed + 6);
        play(seed, |_, after, _| {
            let mut pod = Pod::clone(&pod(&mut random, 3_000));
            pod.init_containers.clear();
            pod.containers.truncate(1);
            let pod = Arc::new(pod);
            let prediction = predict(after, None, &pod);
            if prediction == Prediction::Uncertain(Gap::Cores) {
                let options = &after.rules().settings().cpu_options;
                assert!(options.contains_key("full-pcpus-only"), "seed {seed}");
            }
            tally.count(seed, &prediction, &decide(after, &pod));
        });
    }
    println!("one container: {tally:?}");
    assert!(tally.admitted > 500 && tally.rejected > 500, "{tally:?}");
    let other = tally.doubts("division") + tally.doubts("another");
    assert_eq!(other, 0, "{tally:?}");
}

#[test]
fn with_listed_cpus_only_caches_are_uncertain() {
    let mut tally = Tally::default();
    for seed in histories() {
        let mut random = Random(seed + 7);
        play(seed, |_, after, _| {
            let known = known_cpus(after);
            let mut pod = Pod::clone(&pod(&mut random, 3_000));
            for container in pod.init_containers.iter_mut().chain(&mut pod.containers) {
                container.requests.remove("example.com/gpu");
                container.limits.remove("example.com/gpu");
            }
            let pod = Arc::new(pod);
            let prediction = predict(after, Some(&known), &pod);
            if let Prediction::Uncertain(gap) = &prediction {
                let options = &after.rules().settings().cpu_options;
                let caches = options.contains_key("prefer-align-cpus-by-uncorecache");
                assert!(caches, "seed {seed}: {gap}");
            }
            tally.count(seed, &prediction, &decide(after, &pod));
        });
    }
    println!("listed CPUs: {tally:?}");
    assert_eq!(
        tally.uncertain.len(),
        usize::from(tally.doubts("division") > 0),
        "{tally:?}"
    );
    assert!(tally.doubts("division") * 100 < tally.all(), "{tally:?}");
}
