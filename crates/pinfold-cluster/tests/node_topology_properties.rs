//! Tests that the published topology object predicts the kubelet: random machines and histories, published as counts,
//! against the ledger that published them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::histories::{Random, histories, play, pod};
use pinfold_cluster::node_topology::NodeTopology;
use pinfold_cluster::node_topology::prediction::Gap;
use pinfold_cluster::node_topology::replica::{
    DeviceTotal, DeviceTotals, KnownCpus, Replica, RulesCache,
};
use pinfold_cluster::volcano::cpu_detail::CpuRow;
use pinfold_cluster::{ClusterNode, Evaluation, NodeRejection, PodRequest};
use pinfold_core::decision::Decision;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Ledger;
use pinfold_core::pod::Pod;

/// The device totals of the node.
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

/// The CPUs as an exporter that lists them reports them.
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

fn predict(ledger: &Ledger, cpus: Option<&KnownCpus>, new_pod: &Arc<Pod>) -> Evaluation {
    let published = NodeTopology::of(ledger);
    let fidelity = ledger.rules().fidelity();
    let replica = Replica::of(
        &published,
        &totals(ledger),
        cpus,
        fidelity,
        &mut RulesCache::default(),
    )
    .expect("a published object is valid");
    // The node of a cluster that has enough in total.
    let request = PodRequest::new(Arc::clone(new_pod));
    let node = ClusterNode::kubelet(replica.ledger().clone(), request.requests().clone());
    node.with_gaps(replica.gaps().clone()).evaluate(&request)
}

fn decide(ledger: &Ledger, new_pod: &Arc<Pod>) -> Decision {
    let admission = ledger.clone().admit(new_pod, &mut NoPreference);
    admission.expect("a new pod").decision
}

/// The number of predictions by result.
#[derive(Debug, Default)]
struct Tally {
    admitted: usize,
    rejected: usize,
    uncertain: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn count(&mut self, seed: u64, prediction: &Evaluation, kubelet: &Decision) {
        let admits = kubelet.is_admitted();
        match prediction {
            Evaluation::Fits(_) | Evaluation::FitsInTotal => {
                let why = kubelet.rejection();
                assert!(
                    admits,
                    "seed {seed}: admitted, but the kubelet says {why:?}"
                );
                self.admitted += 1;
            }
            Evaluation::Rejected(NodeRejection::Uncertain(gap)) => {
                let name = match gap {
                    Gap::Cores => "cores",
                    Gap::Division { .. } => "division",
                    _ => "another",
                };
                *self.uncertain.entry(name).or_default() += 1;
            }
            Evaluation::Rejected(why) => {
                assert!(!admits, "seed {seed}: {why:?}, admitted by the kubelet");
                self.rejected += 1;
            }
        }
    }

    fn uncertain_about(&self, name: &str) -> usize {
        self.uncertain.get(name).copied().unwrap_or(0)
    }

    fn all(&self) -> usize {
        self.admitted + self.rejected + self.uncertain.values().sum::<usize>()
    }
}

#[test]
fn a_prediction_from_counts_is_right_or_uncertain() {
    let mut tally = Tally::default();
    for seed in histories() {
        let mut random = Random(seed + 5);
        play(seed, |_, after, _| {
            let new_pod = pod(&mut random, 3_000);
            tally.count(
                seed,
                &predict(after, None, &new_pod),
                &decide(after, &new_pod),
            );
        });
    }
    println!("several containers: {tally:?}");
    assert!(tally.admitted > 500 && tally.rejected > 500, "{tally:?}");
    assert_eq!(tally.uncertain_about("another"), 0, "{tally:?}");
    assert!(
        tally.uncertain_about("division") * 10 < tally.all(),
        "{tally:?}"
    );
}

#[test]
fn a_single_container_is_uncertain_only_if_an_option_uses_cores() {
    let mut tally = Tally::default();
    for seed in histories() {
        let mut random = Random(seed + 6);
        play(seed, |_, after, _| {
            let mut new_pod = Pod::clone(&pod(&mut random, 3_000));
            new_pod.init_containers.clear();
            new_pod.containers.truncate(1);
            let new_pod = Arc::new(new_pod);
            let prediction = predict(after, None, &new_pod);
            if let Some(NodeRejection::Uncertain(Gap::Cores)) = prediction.rejection() {
                let options = &after.rules().settings().cpu_options;
                assert!(options.contains_key("full-pcpus-only"), "seed {seed}");
            }
            tally.count(seed, &prediction, &decide(after, &new_pod));
        });
    }
    println!("one container: {tally:?}");
    assert!(tally.admitted > 500 && tally.rejected > 500, "{tally:?}");
    let other = tally.uncertain_about("division") + tally.uncertain_about("another");
    assert_eq!(other, 0, "{tally:?}");
}

#[test]
fn with_listed_cpus_only_caches_are_uncertain() {
    let mut tally = Tally::default();
    for seed in histories() {
        let mut random = Random(seed + 7);
        play(seed, |_, after, _| {
            let known = known_cpus(after);
            let mut new_pod = Pod::clone(&pod(&mut random, 3_000));
            for container in new_pod
                .init_containers
                .iter_mut()
                .chain(&mut new_pod.containers)
            {
                container.requests.remove("example.com/gpu");
                container.limits.remove("example.com/gpu");
            }
            let new_pod = Arc::new(new_pod);
            let prediction = predict(after, Some(&known), &new_pod);
            if let Some(NodeRejection::Uncertain(gap)) = prediction.rejection() {
                let options = &after.rules().settings().cpu_options;
                let caches = options.contains_key("prefer-align-cpus-by-uncorecache");
                assert!(caches, "seed {seed}: {gap}");
            }
            tally.count(seed, &prediction, &decide(after, &new_pod));
        });
    }
    println!("listed CPUs: {tally:?}");
    assert_eq!(
        tally.uncertain.len(),
        usize::from(tally.uncertain_about("division") > 0),
        "{tally:?}"
    );
    assert!(
        tally.uncertain_about("division") * 100 < tally.all(),
        "{tally:?}"
    );
}
