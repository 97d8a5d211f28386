//! Questions about whole clusters and long simulations: loading a snapshot, counting replicas, admitting many pods.

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::{ClusterNode, PodRequest};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::name::NodeName;
use pinfold_core::pod::Pod;
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest};
use pinfold_kube::capacity::{self, CandidateNode};
use pinfold_kube::manifest::stream;
use pinfold_kube::objects::ClusterObjects;

use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::merge_cases::Random;

/// The nodes whose replicas are counted.
const NODES: usize = 5000;
/// The scale of the snapshot: a 25th of 5,000 nodes and 150,000 pods.
const SNAPSHOT: (usize, usize) = (200, 6000);
/// The pods of a long simulation.
const PODS: usize = 100_000;

pub(super) fn cases() -> Vec<BenchCase> {
    let (nodes, pods) = SNAPSHOT;
    let snapshot = BenchCase::new(
        Group::Planning,
        format!("load a snapshot of {nodes} nodes and {pods} pods (1/25 of 5,000 and 150,000)"),
        move || {
            let text = snapshot(nodes, pods);
            move || {
                let mut objects = ClusterObjects::default();
                let mut take = |document| objects.add_object(&document).is_ok();
                let read = stream::read_json("snapshot", text.as_bytes(), &mut take);
                assert!(read.is_ok() && black_box(&objects).pods.len() == pods);
            }
        },
    );
    let mut cases = vec![snapshot.within_us(1_000_000.0)];
    for (cpus, limit) in [("8", 1_000_000.0), ("1", 2_000_000.0)] {
        let name = format!("replicas of {cpus} CPUs on {NODES} nodes, all different");
        let case = BenchCase::new(Group::Planning, name, move || count_replicas(cpus));
        cases.push(case.within_us(limit));
    }
    let simulated = BenchCase::new(
        Group::Planning,
        format!("{PODS} pods admitted on one node with filters and predicates"),
        admit_many,
    );
    cases.push(simulated.within_us(1_000_000.0));
    cases
}

/// `kubectl get nodes,pods -o json` with managed fields.
fn snapshot(nodes: usize, pods: usize) -> String {
    let fields: Vec<String> = (0..60)
        .map(|field| format!("\"f:field{field}\":{{\".\":{{}},\"f:name\":{{}}}}"))
        .collect();
    let managed = format!(
        "[{{\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{{{}}}}}]",
        fields.join(",")
    );
    let mut text = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[".to_owned();
    for node in 0..nodes {
        let _ = write!(
            text,
            "{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"node-{node}\",\"managedFields\":{managed}}},\
             \"status\":{{\"allocatable\":{{\"cpu\":\"31\",\"memory\":\"60Gi\",\"pods\":\"110\"}}}}}},"
        );
    }
    for pod in 0..pods {
        let comma = if pod + 1 < pods { "," } else { "" };
        let _ = write!(
            text,
            "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"web-{pod}\",\"namespace\":\"shop\",\
             \"uid\":\"uid-{pod}\",\"labels\":{{\"app\":\"web\"}},\"managedFields\":{managed}}},\"spec\":{{\"containers\":\
             [{{\"name\":\"main\",\"image\":\"web:1\",\"resources\":{{\"requests\":{{\"cpu\":\"100m\",\"memory\":\"128Mi\"}}}}}}],\
             \"nodeName\":\"node-{}\"}},\"status\":{{\"phase\":\"Running\"}}}}{comma}",
            pod % nodes
        );
    }
    text.push_str("]}");
    text
}

/// The rules of a node with 128 CPUs on 4 NUMA nodes.
fn rules() -> Arc<Rules> {
    let shape = fixture::MachineShape {
        nodes: 4,
        cpus: 128,
        caches: 1,
        hugepages: 0,
    };
    let settings = fixture::settings("single-numa-node", "container");
    Arc::new(Rules::new(shape.machine(), settings).expect("good settings"))
}

fn allocatable(pods: i64) -> Amounts {
    Amounts::from([("cpu", 126_000), ("memory", 255 << 30), ("pods", pods)])
}

/// Counts the replicas of a pod on nodes with random pods.
fn count_replicas(cpus: &'static str) -> impl FnMut() {
    let rules = rules();
    let nodes: Vec<(NodeName, ClusterNode, AdmissionNode)> = (0..NODES)
        .map(|at| {
            let mut random = Random(at as u64);
            let mut ledger = Ledger::new(rules.clone());
            let mut sums = AdmissionNode::new(None, allocatable(110));
            for number in 0..random.below(24) {
                let cpus = (1 + random.below(12)).to_string();
                let amounts = [("cpu", cpus.as_str()), ("memory", "1Gi")];
                let pod = fixture::pod(&format!("pod-{number}"), &amounts);
                let admitted = ledger.admit(&pod, &mut NoPreference).expect("a new pod");
                if admitted.decision.is_admitted() {
                    sums.add(&pod.uid, &AdmissionRequest::of_resources(&pod));
                }
            }
            let name = NodeName::from(format!("node-{at:04}").as_str());
            (name, ClusterNode::kubelet(ledger, allocatable(110)), sums)
        })
        .collect();
    let pod = fixture::pod("replica", &[("cpu", cpus), ("memory", "1Gi")]);
    let (ask, request) = (
        PodRequest::new(pod.clone()),
        AdmissionRequest::of_resources(&pod),
    );
    move || {
        let nodes = nodes
            .iter()
            .map(|(name, rules, sums)| CandidateNode { name, rules, sums });
        let found = capacity::count(nodes, &ask, &request);
        assert!(black_box(found).iter().any(|node| node.started > 0));
    }
}

/// Admits pods as `simulate` does: nine of ten in the shared pool, every tenth with CPUs that it gives back 500 pods later.
fn admit_many() -> impl FnMut() {
    let rules = rules();
    let allocatable = Amounts::from([("cpu", 1 << 40), ("memory", 1 << 60), ("pods", 1 << 20)]);
    let pods: Vec<Arc<Pod>> = (0..PODS)
        .map(|number| {
            let cpus = if number.is_multiple_of(10) {
                "2"
            } else {
                "100m"
            };
            let amounts = [("cpu", cpus), ("memory", "1Mi")];
            fixture::pod(&format!("pod-{number}"), &amounts)
        })
        .collect();
    let requests = pods.iter().map(|pod| AdmissionRequest::of_resources(pod));
    let requests: Vec<AdmissionRequest> = requests.collect();
    move || {
        let mut ledger = Ledger::new(rules.clone());
        let mut sums = AdmissionNode::new(None, allocatable.clone());
        let mut rejected = 0;
        for (number, (pod, request)) in pods.iter().zip(&requests).enumerate() {
            assert!(sums.filter(request).is_ok());
            let admitted = ledger.admit(pod, &mut NoPreference).expect("a new pod");
            match admitted.decision.is_admitted() {
                true => {
                    assert!(sums.predicates(request, &Amounts::new()).is_ok());
                    sums.add(&pod.uid, request);
                }
                false => rejected += 1,
            }
            if let Some(old) = number
                .checked_sub(500)
                .filter(|_| number.is_multiple_of(10))
            {
                let _ = black_box(ledger.release(&pods[old].uid));
                sums.remove(&pods[old].uid);
            }
        }
        assert!(black_box(rejected) < PODS);
    }
}
