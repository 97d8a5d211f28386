//! Rules for the output of all commands.

use std::fs;

use crate::program::{Run, root, run, scratch, words};

const COMMANDS: [&str; 6] = [
    "top --nodes cluster.yaml",
    "explain pod trainer-3 -n ml --nodes cluster.yaml",
    "explain pod trainer-1 -n ml --nodes cluster.yaml",
    "view node gpu-1 --nodes cluster.yaml",
    "doctor --nodes ../cluster-doctor/cluster.yaml",
    "capacity -f ../replica-capacity/encoder.yaml --nodes cluster.yaml --compare",
];

fn play(line: &str) -> Run {
    run(&root().join("examples/running-cluster"), &words(line))
}

#[test]
fn json_and_yaml_are_the_same_value() {
    for line in COMMANDS {
        let json = play(&format!("{line} -o json")).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect(line);
        let yaml = play(&format!("{line} -o yaml")).stdout;
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).expect(line);
        assert_eq!(json, yaml, "{line}");
    }
}

/// A report as the agent writes it for koord-scheduler: `allocatable` counts CPU 0, which an annotation reserves.
const REPORTED: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: one}
status: {allocatable: {cpu: 1950m, memory: 8Gi, pods: "110"}, nodeInfo: {kubeletVersion: v1.36.4}}
---
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata:
  name: one
  annotations:
    kubelet.koordinator.sh/cpu-manager-policy: '{"policy":"static","reservedCPUs":"0"}'
    node.koordinator.sh/cpu-topology: '{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":1,"socket":0,"node":0}]}'
attributes:
- {name: topologyManagerPolicy, value: single-numa-node}
- {name: cpuManagerPolicy, value: static}
zones:
- name: node-0
  type: Node
  resources:
  - {name: cpu, capacity: "2", allocatable: "2", available: "1"}
"#;

#[test]
fn reserved_cpus_of_a_report_are_not_counted_as_used_by_pods() {
    let file = format!("{}/reported.yaml", scratch());
    fs::write(&file, REPORTED).expect("writable");
    let top = play(&format!("top -o json --nodes {file}")).stdout;
    let top: serde_json::Value = serde_json::from_str(&top).expect("JSON");
    assert_eq!(
        top["nodes"][0]["numa"][0]["cpus"],
        serde_json::json!({"total": 2, "reserved": 1, "used": 0, "free": 1}),
    );
}

#[test]
fn text_has_no_colour_codes_and_fits_80_columns() {
    for line in COMMANDS {
        let text = play(line).stdout;
        assert!(!text.is_empty(), "{line}");
        assert!(!text.contains('\u{1b}'), "{line}");
        for row in text.lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

#[test]
fn completions_and_man_pages_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = play(&format!("completions {shell}")).stdout;
        for command in ["explain", "top", "view", "capacity", "doctor", "snapshot"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let folder = format!("{}/man", scratch());
    fs::create_dir_all(&folder).expect("writable");
    assert_eq!(play(&format!("man {folder}")).code, 0);
    for page in [
        "kubectl-pinfold",
        "kubectl-pinfold-top",
        "kubectl-pinfold-explain-pod",
    ] {
        let text = fs::read_to_string(format!("{folder}/{page}.1"));
        assert!(text.expect(page).starts_with(".ie"), "{page}");
    }
}
