//! The commands that are clients of the node agent.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Run, run};
use crate::server::{TestServer, serve};

/// Runs a command with `--socket`.
fn run_with_socket(served: &TestServer, words: &[&str]) -> Run {
    let socket = served.socket.to_str().expect("text");
    let (command, rest) = words.split_first().expect("a command");
    let words: Vec<&str> = [&[*command, "--socket", socket], rest].concat();
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs");
    run(&inputs, &words)
}

fn pod(served: &TestServer, name: &str, cpus: u32) -> String {
    let path = served.socket.with_file_name(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, resources: \
         {{requests: {{cpu: {cpus}, memory: 1Mi}}, limits: {{cpu: {cpus}, memory: 1Mi}}}}}}]}}\n"
    );
    fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

#[test]
fn a_pod_is_admitted_listed_and_released() {
    let served = serve();
    let admitted = run_with_socket(&served, &["admit", &pod(&served, "web", 4)]);
    assert_eq!(admitted.code, 0, "{}", admitted.output());
    assert_eq!(
        admitted.stdout,
        "default/web (uid default/web)\n  main: CPUs 1-2,9-10 (exclusive)\n"
    );
    let shown = run_with_socket(&served, &["ps"]);
    assert!(
        shown.stdout.contains("CPUs 1-2,9-10 (exclusive)"),
        "{}",
        shown.output()
    );
    let json = run_with_socket(&served, &["ps", "-o", "json"]).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["uid"], "default/web");
    let status = run_with_socket(&served, &["status"]);
    assert_eq!(status.code, 0);
    assert!(
        status.stdout.contains("1 pod, journal entry 1"),
        "{}",
        status.output()
    );
    assert_eq!(
        run_with_socket(&served, &["release", "default/web"]).code,
        0
    );
    assert_eq!(run_with_socket(&served, &["ps"]).stdout, "no pods\n");
    let gone = run_with_socket(&served, &["release", "default/web"]);
    assert_eq!(gone.code, 2, "{}", gone.output());
}

#[test]
fn releasing_an_unknown_pod_names_the_one_that_is_meant() {
    let served = serve();
    let admitted = run_with_socket(&served, &["admit", &pod(&served, "guar", 4)]);
    assert_eq!(admitted.code, 0, "{}", admitted.output());
    let unknown = run_with_socket(&served, &["release", "guar"]);
    assert_eq!(unknown.code, 2);
    assert_eq!(
        unknown.stderr,
        "pinfold: the agent has no pod guar\n  did you mean default/guar? `pinfold ps` lists its pods\n"
    );
    let other = run_with_socket(&served, &["release", "other"]);
    assert_eq!(
        other.stderr,
        "pinfold: the agent has no pod other\n  `pinfold ps` lists its pods\n"
    );
}

#[test]
fn a_rejected_run_is_explained_without_pods_and_containers() {
    let served = serve();
    let rejected = run_with_socket(&served, &["run", "--cpus", "99", "--", "true"]);
    assert_eq!(rejected.code, 1, "{}", rejected.output());
    assert!(
        rejected.stderr.starts_with("cannot run true:\n"),
        "{}",
        rejected.stderr
    );
    assert!(!rejected.stderr.contains("ontainer") && !rejected.stderr.contains("Pod "));
}

#[test]
fn a_rejected_pod_is_explained_with_exit_code_1() {
    let served = serve();
    let rejected = run_with_socket(&served, &["admit", &pod(&served, "wide", 9)]);
    assert_eq!(rejected.code, 1, "{}", rejected.output());
    assert!(rejected.stderr.contains("would fit"), "{}", rejected.stderr);
    assert_eq!(rejected.stdout, "");
}

#[test]
fn a_run_is_admitted_by_the_agent_and_released_at_its_end() {
    let served = serve();
    let command = ["run", "--cpus", "2", "--", "sh", "-c", "exit 7"];
    let ended = run_with_socket(&served, &command);
    assert_eq!(ended.code, 7, "{}", ended.output());
    let (_, page) = served.ask("GET", "/v1/journal", "");
    let whats: Vec<String> = page["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| entry["event"].to_string())
        .collect();
    assert_eq!(whats.len(), 2, "{whats:?}");
    assert!(
        whats[0].contains("admitted") && whats[1].contains("released"),
        "{whats:?}"
    );
    let missing = run_with_socket(&served, &["run", "--cpus", "2", "--", "no-such-command"]);
    assert_eq!(missing.code, 127, "{}", missing.output());
    assert_eq!(
        run_with_socket(&served, &["run", "--cpus", "99", "--", "true"]).code,
        1
    );
    assert_eq!(run_with_socket(&served, &["ps"]).stdout, "no pods\n");
}

#[test]
fn status_exits_with_1_if_the_agent_reports_a_problem() {
    let served = serve();
    let problem = "the runtime is not connected".to_owned();
    served
        .agent
        .not_ready
        .lock()
        .expect("unpoisoned")
        .push(problem);
    let status = run_with_socket(&served, &["status"]);
    assert_eq!(status.code, 1);
    assert!(
        status
            .stdout
            .contains("problem: the runtime is not connected")
    );
}

#[test]
fn settings_prints_a_plan_and_applies_it() {
    let served = serve();
    assert_eq!(
        run_with_socket(&served, &["admit", &pod(&served, "web", 4)]).code,
        0
    );
    let rules = served.socket.with_file_name("kubelet.yaml");
    let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n\
                topologyManagerPolicy: restricted\nsystemReserved: {cpu: '2'}\n";
    fs::write(&rules, text).expect("written");
    let rules = rules.to_str().expect("text");
    let plan = run_with_socket(&served, &["settings", rules, "--dry-run"]);
    assert_eq!(plan.code, 0, "{}", plan.output());
    assert!(plan.stdout.contains("unchanged") && plan.stdout.ends_with("not applied\n"));
    let done = run_with_socket(&served, &["settings", rules]);
    assert!(done.stdout.ends_with("applied\n"), "{}", done.output());
}

#[test]
fn without_an_agent_the_error_names_its_socket() {
    let lost = run(
        Path::new("/"),
        &["status", "--socket", "/nowhere/agent.sock"],
    );
    assert_eq!(lost.code, 3);
    assert!(
        lost.stderr.contains("/nowhere/agent.sock")
            && lost
                .stderr
                .contains("is it running? systemctl status pinfold-agent"),
        "{}",
        lost.stderr
    );
}
