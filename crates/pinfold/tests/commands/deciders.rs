//! `--as`: every decider gives its own answer, and the kubelet is the default.

use std::path::Path;

use serde_json::Value;

use crate::program::{Run, root, run, words};

fn play(line: &str) -> Run {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    run(&tests.join("inputs"), &words(line))
}

fn json(line: &str) -> Value {
    let run = play(&format!("{line} -o json"));
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}\n{}", run.stderr))
}

/// A machine whose NUMA node 0 has one reserved thread on each core: the kubelet's `full-pcpus-only` gives out the other
/// threads (`assigns_split_cores`), Pinfold does not.
const SPLIT_CORES: &str =
    "--machine '2 sockets, 2 cores, smt2, numbering=adjacent' --config split-cores.yaml pair.yaml";

#[test]
fn without_a_flag_the_kubelet_decides_defects_included() {
    let answer = json(&format!("simulate {SPLIT_CORES}"));
    assert_eq!(answer["decider"], "kubelet-1.36");
    assert_eq!(answer["events"][0]["message"], "node 0, CPUs 1,3");
    assert_eq!(
        answer,
        json(&format!("simulate --as kubelet {SPLIT_CORES}"))
    );
    assert_eq!(
        answer,
        json(&format!("simulate --as kubelet-1.36 {SPLIT_CORES}"))
    );
    let sound = json(&format!("simulate --as pinfold {SPLIT_CORES}"));
    assert_eq!(sound["decider"], "pinfold");
    assert_eq!(sound["events"][0]["message"], "node 1, CPUs 4-5");
}

#[test]
fn a_kubelets_answer_ends_with_the_first_pod_that_pinfold_decides_otherwise() {
    for command in [
        "simulate",
        "explain",
        "simulate --copies 1",
        "explain --copies 1",
    ] {
        let run = play(&format!("{command} {SPLIT_CORES}"));
        let last = run.stdout.lines().last().unwrap_or_default();
        let line = run
            .stdout
            .lines()
            .rev()
            .find(|line| line.starts_with("As pinfold: "));
        let line = line.unwrap_or_else(|| panic!("{command}: {last}"));
        assert!(line.contains("pod pair would get "), "{command}: {line}");
        assert!(line.contains("CPUs 4-5"), "{command}: {line}");
        let differences = &json(&format!("{command} {SPLIT_CORES}"))["as_pinfold"]["differences"];
        assert_eq!(differences[0]["pod"], "pair", "{command}");
    }
}

#[test]
fn equal_decisions_and_other_deciders_have_no_such_line() {
    let equal = "--machine '2 sockets, 2 cores, smt2' pair.yaml";
    for line in [
        format!("simulate {equal}"),
        format!("explain {equal}"),
        format!("simulate --copies 2 {equal}"),
        format!("defragment {equal}"),
    ] {
        let run = play(&line);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        assert!(!run.stdout.contains("As pinfold"), "{line}: {}", run.stdout);
        let differences = json(&line)["as_pinfold"]["differences"].clone();
        assert_eq!(differences, Value::Array(Vec::new()), "{line}");
    }
    for decider in ["pinfold", "koordinator", "volcano", "scheduler-plugins"] {
        let line = format!("simulate --as {decider} {SPLIT_CORES}");
        assert!(!play(&line).stdout.contains("As pinfold"), "{line}");
        assert_eq!(json(&line)["as_pinfold"], Value::Null, "{line}");
    }
}

#[test]
fn a_kubelet_on_nine_numa_nodes_starts_only_with_its_option() {
    let machine = "--machine '9 sockets, 2 cores'";
    for command in ["simulate", "explain", "defragment", "simulate --copies 2"] {
        let run = play(&format!("{command} {machine} pair.yaml"));
        assert_eq!(run.code, 1, "{command}: {}", run.stderr);
        for part in [
            "unsupported on machines with more than 8 NUMA Nodes",
            "max-allowable-numa-nodes: \"9\"",
            "As pinfold: the agent starts",
        ] {
            assert!(run.stdout.contains(part), "{command}: {}", run.stdout);
        }
        let value = json(&format!("{command} {machine} pair.yaml"));
        assert_eq!(value["valid"], false, "{command}");
        for flags in ["--as pinfold", "--config nine-numa-nodes.yaml"] {
            let run = play(&format!("{command} {machine} {flags} pair.yaml"));
            assert_eq!(
                run.code, 0,
                "{command} {flags}: {}{}",
                run.stdout, run.stderr
            );
        }
    }
}

#[test]
fn check_and_simulate_agree_on_whether_the_kubelet_starts() {
    let configurations = [
        "good.yaml",
        "bad.yaml",
        "misspelt.yaml",
        "unmanaged.yaml",
        "split-cores.yaml",
        "nine-numa-nodes.yaml",
        "nine-numa-nodes-forbidden.yaml",
    ];
    let machines = [
        "'2 sockets, 4 cores, smt2'",
        "'9 sockets, 2 cores'",
        "'2 cores'",
        "gb200-nvl4",
    ];
    let mut starts = [0, 0];
    for config in configurations {
        for machine in machines {
            for decider in ["kubelet", "pinfold"] {
                let flags = format!("--as {decider} --config {config} --machine {machine}");
                let check = play(&format!("check {flags}"));
                let value = json(&format!("check {flags}"));
                let simulated = json(&format!("simulate {flags} pair.yaml"));
                let is_valid = value["valid"] == true;
                starts[usize::from(is_valid)] += 1;
                assert_eq!(check.code, i32::from(!is_valid), "{flags}");
                assert_eq!(
                    simulated["valid"] != false,
                    is_valid,
                    "{flags}: {simulated}"
                );
                if !is_valid {
                    assert_eq!(simulated["problems"], value["problems"], "{flags}");
                    let run = play(&format!("simulate {flags} pair.yaml"));
                    assert_eq!(run.code, 1, "{flags}");
                    assert!(
                        run.stdout.starts_with("not valid: no "),
                        "{flags}: {}",
                        run.stdout
                    );
                }
            }
        }
    }
    assert!(starts.iter().all(|count| *count > 5), "{starts:?}");
}

#[test]
fn an_unknown_version_or_program_is_rejected_with_the_known_ones() {
    for (decider, part) in [
        ("kubelet-1.12", "known versions: 1.29 to 1.37"),
        ("kubelet-", "known versions: 1.29 to 1.37"),
        (
            "docker",
            "expected kubelet, pinfold, koordinator, volcano or scheduler-plugins",
        ),
    ] {
        for command in ["simulate", "explain", "defragment"] {
            let run = play(&format!(
                "{command} --as {decider} --machine '2 cores' pair.yaml"
            ));
            assert_eq!(run.code, 2, "{command} {decider}");
            assert!(
                run.stderr.contains(part),
                "{command} {decider}: {}",
                run.stderr
            );
        }
    }
}

#[test]
fn a_scheduler_neither_defragments_a_node_nor_is_checked() {
    for line in [
        "defragment --as volcano --machine '2 cores' pair.yaml",
        "check --as koordinator --machine '2 cores' --config good.yaml",
        "simulate --as koordinator --compare --machine '2 cores' pair.yaml",
    ] {
        let run = play(line);
        assert_eq!(run.code, 2, "{line}: {}", run.stdout);
    }
}

/// The nodes of the pods, in order; `null` for a rejected one.
fn nodes(line: &str) -> Vec<String> {
    let events = json(line)["events"].clone();
    let events = events.as_array().cloned().unwrap_or_default();
    events
        .iter()
        .map(|event| event["node"].as_str().unwrap_or("null").to_owned())
        .collect()
}

#[test]
fn scheduler_plugins_chooses_nodes_by_its_filter_and_scoring_strategy() {
    let nodes_file = "--as scheduler-plugins --nodes node-topologies.yaml";
    // The default, LeastAllocated, without a cache: the emptier node, as long as its totals suffice.
    assert_eq!(
        nodes(&format!("simulate {nodes_file} two.yaml")),
        ["empty", "empty", "empty"]
    );
    // MostAllocated with the cache: the fuller node, whose zones are then empty.
    assert_eq!(
        nodes(&format!(
            "simulate {nodes_file} --scheduler-config most-allocated.yaml two.yaml"
        )),
        ["half-full", "empty", "empty"]
    );
    let run = play(&format!("explain {nodes_file} one.yaml"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout
            .contains("half-full: cannot align container (main: no NUMA zone has enough cpu)")
    );
}

#[test]
fn pinfold_decides_by_the_rules_that_a_nodes_label_names() {
    let machine = "--machine '2 sockets, 4 cores, smt2' --policy none";
    // ConstrainedBurst is one of Koordinator's policies that only Pinfold implements.
    let line = format!("simulate --as pinfold --nodes koordinator-rules.yaml {machine} burst.yaml");
    assert_eq!(nodes(&line), ["worker-1", "null"]);
    let line =
        format!("simulate --as koordinator --nodes koordinator-rules.yaml {machine} burst.yaml");
    assert_eq!(nodes(&line), ["worker-1", "worker-1"]);
}

#[test]
fn pinfolds_decisions_are_compared_with_the_kubelets_vectors_and_differences_named() {
    let vectors = [
        "conformance",
        "conformance/kubelet",
        "--family",
        "config_errors",
    ];
    let exact = run(&root(), &vectors);
    assert_eq!(exact.code, 0, "{}", exact.stderr);
    assert!(
        !exact.stdout.contains("limits_numa_nodes"),
        "{}",
        exact.stdout
    );
    let sound = run(&root(), &[&vectors[..], &["--as", "pinfold"]].concat());
    assert_eq!(sound.code, 0, "{}", sound.stderr);
    let differences = "\n3 cases differ because Pinfold does not repeat these defects of the kubelet:\n     \
         3  limits_numa_nodes\n";
    assert!(sound.stdout.ends_with(differences), "{}", sound.stdout);
}

/// Objects of a real koord-scheduler 1.8.0 beside Pinfold's agent.
fn with_koord_scheduler(decider: &str, name: &str, state: &str) -> Value {
    let peers =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../pinfold-kube/tests/peers/koordinator");
    let line =
        format!("simulate --as {decider} --nodes {name}-{state}.json {name}-pod.json -o json");
    let run = run(&peers, &words(&line));
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}\n{}", run.stderr))
}

#[test]
fn a_score_that_fails_on_one_node_leaves_the_pod_pending_as_koord_scheduler_does() {
    let exact = with_koord_scheduler("koordinator", "score-error", "state");
    assert_eq!(exact["events"][0]["node"], Value::Null, "{exact}");
    let sound = with_koord_scheduler("pinfold", "score-error", "state");
    assert!(sound["events"][0]["node"].is_string(), "{sound}");
}

#[test]
fn a_report_that_excludes_reserved_cpus_rejects_the_pod_only_under_koord_scheduler() {
    let exact = with_koord_scheduler("koordinator", "double-reservation", "host-state");
    assert_eq!(exact["events"][0]["node"], Value::Null, "{exact}");
    let sound = with_koord_scheduler("pinfold", "double-reservation", "host-state");
    assert_eq!(sound["events"][0]["node"], "host", "{sound}");
}
