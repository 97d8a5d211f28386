//! Snapshots of what every command prints, with its exit code.

use std::fmt::Write;
use std::path::Path;

use crate::golden;
use crate::program::{root, run, words};

/// Runs command lines and compares their output and exit codes with a snapshot.
fn check(name: &str, lines: &[&str]) {
    let mut found = String::new();
    for line in lines {
        let run = run(&root().join("crates/pinfold/tests/inputs"), &words(line));
        let _ = write!(found, "$ kubectl pinfold {line}\n{}", run.output());
        let _ = writeln!(found, "[exit code {}]\n", run.code);
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden::check(&golden.join(format!("{name}.txt")), &found);
}

#[test]
fn commands() {
    let running = "--nodes ../../../../examples/running-cluster/cluster.yaml";
    let koordinator = "--as koordinator --nodes koordinator.yaml";
    check(
        "commands",
        &[
            &format!("top --sort name --selector pool=gpu {running}"),
            &format!("top -o yaml --selector pool=gpu --sort devices {running}"),
            &format!("explain pod trainer-3 -n ml --if-moved ml/notebook-0 {running}"),
            &format!("explain pod web-0 -n shop {running}"),
            &format!("explain pod trainer-3 {running}"),
            &format!("explain pod trainer-3 -n ml --if-moved ml/trainer-3 {running}"),
            &format!("view node worker-2 {running}"),
            &format!("view node worker-9 {running}"),
            &format!("view node worker-1 -o json {running}"),
            &format!("top {koordinator}"),
            &format!("explain pod old {koordinator}"),
            &format!("view node left {koordinator}"),
            "top --nodes ../../../../examples/volcano-job/nodes.yaml --as volcano",
            &format!("capacity -f one.yaml {running}"),
            &format!("capacity -f one.yaml --compare -o yaml {running}"),
            &format!("capacity -f gpus.yaml {koordinator}"),
            &format!("capacity -f gpus.yaml --compare {koordinator}"),
            &format!("snapshot - {koordinator}").replace("--as koordinator ", ""),
            &format!("snapshot --scramble - {koordinator}").replace("--as koordinator ", ""),
            "doctor --nodes ../../../../examples/cluster-doctor/cluster.yaml",
            "doctor --fail-on error --nodes ../../../../examples/running-cluster/cluster.yaml",
            "upgrade --to 1.36 --nodes ../../../../examples/kubelet-upgrade/cluster.yaml",
            "upgrade --from 1.35 --to 1.36 -o yaml --nodes ../../../../examples/kubelet-upgrade/cluster.yaml",
            &format!("upgrade --to 1.36 {running}"),
            "upgrade --to 1.12 --nodes one.yaml",
            "upgrade --to 1.36 --nodes one.yaml",
            "doctor --nodes one.yaml",
            "top --nodes one.yaml",
            "top --nodes wrong.yaml",
            "top --nodes one.yaml --kubeconfig x",
        ],
    );
}

#[test]
fn help() {
    check(
        "help",
        &[
            "--help",
            "explain pod --help",
            "top --help",
            "ui --help",
            "view node --help",
            "capacity --help",
            "upgrade --help",
            "doctor --help",
            "snapshot --help",
        ],
    );
}
