//! `capacity` counts what `simulate` admits one after the other.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{root, run, scratch, words};

/// More replicas than any of the machines has room for.
const REPLICAS: usize = 500;

/// A deployment with these limits of its containers.
fn deployment(name: &str, limits: &[&str]) -> String {
    let containers: String = limits
        .iter()
        .enumerate()
        .map(|(at, limits)| {
            format!("      - {{name: c{at}, resources: {{limits: {{{limits}}}}}}}\n")
        })
        .collect();
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {REPLICAS}\n  template:\n    \
         spec:\n      containers:\n{containers}"
    );
    let file = Path::new(scratch()).join(format!("capacity-{name}.yaml"));
    fs::write(&file, text).expect("writable");
    file.display().to_string()
}

fn json(line: &str) -> Value {
    let found = run(&root(), &words(&format!("{line} -o json")));
    serde_json::from_str(&found.stdout).unwrap_or_else(|_| panic!("{line}: {}", found.output()))
}

#[test]
fn as_many_replicas_start_as_a_simulation_admits() {
    let pods = [
        deployment("three", &["cpu: 3, memory: 1Gi"]),
        deployment("large-memory", &["cpu: 1, memory: 20Gi"]),
        deployment("pair", &["cpu: 2, memory: 1Gi", "cpu: 1, memory: 1Gi"]),
        deployment("shared", &["cpu: 500m, memory: 1Gi"]),
        deployment("gpu", &["cpu: 2, memory: 1Gi, nvidia.com/gpu: 1"]),
    ];
    let running = "--pods examples/replica-capacity/running.yaml";
    let nodes = [
        "--machine '2 sockets, 16 cores, smt2'".to_owned(),
        format!("--machine '2 sockets, 16 cores, smt2' {running}"),
        format!("--machine '2 sockets, 16 cores, smt2' --policy restricted --scope pod {running}"),
        format!("--machine '2 sockets, 2 numa, 8 cores, smt2' --policy none {running}"),
        "--machine '2 sockets, 8 cores' --as pinfold".to_owned(),
        "--machine dgx-h100".to_owned(),
        "--copies 3 --machine '2 sockets, 4 cores'".to_owned(),
        "--nodes examples/replica-capacity/cluster.yaml".to_owned(),
        "--as koordinator --copies 2 --machine '2 sockets, 8 cores'".to_owned(),
        "--as volcano --copies 2 --machine '2 sockets, 8 cores'".to_owned(),
        "--as scheduler-plugins --nodes examples/replica-capacity/cluster.yaml".to_owned(),
    ];
    let mut lost = 0;
    for node in &nodes {
        for pod in &pods {
            let capacity = json(&format!("capacity {node} {pod}"));
            let simulated = json(&format!("simulate {node} {pod}"));
            let (started, admitted) = (&capacity["started"], &simulated["counts"]["admitted"]);
            assert_eq!(started, admitted, "{node} {pod}");
            lost += capacity["lost"].as_u64().expect("a number");
        }
    }
    assert!(lost > 0, "some replicas are lost to fragmentation");
}

#[test]
fn replicas_that_exclude_each_other_are_placed_one_after_the_other() {
    let related = |name: &str, terms: &str| {
        let file = deployment(name, &["cpu: 3, memory: 1Gi"]);
        let text = fs::read_to_string(&file).expect("written");
        let text = text.replace(
            "    spec:\n",
            &format!("    metadata: {{labels: {{app: a}}}}\n    spec:\n      {terms}\n"),
        );
        fs::write(&file, text).expect("writable");
        file
    };
    let selector = "labelSelector: {matchLabels: {app: a}}, topologyKey: kubernetes.io/hostname";
    let apart = related(
        "apart",
        &format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{selector}}}]}}}}"
        ),
    );
    let spread = related(
        "spread",
        &format!(
            "topologySpreadConstraints: [{{{selector}, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}}]"
        ),
    );
    let nodes: String = ["a", "b", "c"]
        .map(|name| {
            format!(
                "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}\n\
                 status: {{allocatable: {{cpu: 15, memory: 100Gi, pods: 110}}}}\n"
            )
        })
        .concat();
    let file = Path::new(scratch()).join("capacity-hosts.yaml");
    fs::write(&file, nodes).expect("writable");
    let cluster = format!("--machine '2 sockets, 8 cores' --nodes {}", file.display());
    for (pod, expected) in [(apart, 3), (spread, 12)] {
        let capacity = json(&format!("capacity {cluster} {pod}"));
        assert_eq!(capacity["started"], expected, "{pod}: {capacity}");
        let simulated = json(&format!("simulate {cluster} {pod}"));
        assert_eq!(simulated["counts"]["admitted"], expected, "{pod}");
    }
}

#[test]
fn replicas_beside_the_pods_of_a_journal_are_counted_under_its_rules() {
    let served = crate::server::serve();
    let pod = deployment("journal", &["cpu: 2, memory: 1Mi"]);
    let journal = served.socket.with_file_name("../state/journal");
    let count = || {
        let line = format!("capacity --journal {} {pod}", journal.display());
        json(&line)["started"].as_u64().expect("a number")
    };
    let empty = count();
    let first = served.socket.with_file_name("first.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: first}\nspec: {containers: [{name: main, resources: {limits: \
                {cpu: 2, memory: 1Mi}}}]}\n";
    fs::write(&first, text).expect("writable");
    let line = format!(
        "admit --socket {} {}",
        served.socket.display(),
        first.display()
    );
    let admitted = run(&root(), &words(&line));
    assert_eq!(admitted.code, 0, "{}", admitted.output());
    assert!(empty > 1);
    assert_eq!(count(), empty - 1);
}

#[test]
fn the_present_policy_is_one_of_those_compared() {
    let pod = deployment("compared", &["cpu: 3, memory: 1Gi"]);
    let running = "--pods examples/replica-capacity/running.yaml";
    for node in [
        &format!("--machine '2 sockets, 16 cores, smt2' {running}"),
        "--nodes examples/replica-capacity/cluster.yaml",
    ] {
        let found = json(&format!("capacity {node} {pod} --compare"));
        let policies = found["policies"].as_array().expect("a list");
        assert_eq!(policies.len(), 7);
        let present = policies
            .iter()
            .find(|row| row["policy"] == "single-numa-node" && row["scope"] == "container");
        assert_eq!(
            present.expect("it is listed")["started"],
            found["started"],
            "{node}"
        );
    }
}

#[test]
fn thousands_of_equal_nodes_are_a_few_lines() {
    let pod = deployment("many", &["cpu: 3, memory: 1Gi"]);
    let line = format!("capacity --copies 5000 --machine '2 sockets, 16 cores, smt2' {pod}");
    let text = run(&root(), &words(&line)).stdout;
    assert!(text.lines().count() < 12, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}
