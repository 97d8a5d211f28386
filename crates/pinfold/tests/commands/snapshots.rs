//! Snapshots of what every command prints, with its exit code.

use std::fmt::Write;
use std::path::Path;

use crate::golden;
use crate::program::{run, words};

/// Runs command lines and compares their output and exit codes with a snapshot.
fn check(name: &str, lines: &[&str]) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut found = String::new();
    for line in lines {
        let words = words(line);
        let run = run(&tests.join("inputs"), &words);
        let _ = write!(found, "$ pinfold {line}\n{}", run.output());
        let _ = writeln!(found, "[exit code {}]\n", run.code);
    }
    golden::check(&tests.join("golden").join(format!("{name}.txt")), &found);
}

#[test]
fn topology() {
    check(
        "topology",
        &[
            "topology --machine dgx-h100",
            "topology --machine gb200-nvl4",
            "topology --machine epyc-9654-nps4",
            "topology --machine '2 sockets, 2 cores, smt2, gpu=1, nic@1=2, isolated=2-3, offline=1' --devices",
            "topology --machine '2 sockets, 2 cores, distances=10,9/21,11'",
            "topology --machine '2 cores' --output yaml",
            "topology --machine '2 sockets, 2 cores, smt2' --output nrt",
            "topology --machine '2 sockets, 2 cores' --output nrt --nrt-version v1alpha1 --node-name worker-1",
            "topology --machine '1 socket, 2 numa, 2 cores, gpu@1=1' --output svg",
        ],
    );
}

#[test]
fn simulate() {
    check(
        "simulate",
        &[
            "simulate --machine '2 sockets, 4 cores, smt2' two.yaml",
            "simulate --machine '2 sockets, 4 cores, smt2' --policy best-effort --scope pod two.yaml",
            "simulate --machine '2 sockets, 2 numa, 16 cores, smt2' --repeat 40 two.yaml",
            "simulate --machine '2 sockets, 4 cores, smt2' --script steps.yaml two.yaml",
            "simulate --machine '2 sockets, 4 cores, smt2' --as kubelet-1.36 --script steps.yaml two.yaml",
            "simulate --machine '2 sockets, 4 cores, smt2' --compare two.yaml",
            "simulate --machine '2 cores' --output yaml one.yaml",
        ],
    );
}

#[test]
fn admission() {
    let eight = "--machine '2 sockets, 4 cores'";
    check(
        "admission",
        &[
            &format!("simulate {eight} hog.yaml"),
            &format!("simulate {eight} --bound hog.yaml"),
            &format!("simulate {eight} --as pinfold hog.yaml"),
            &format!("simulate {eight} --config three-pods.yaml two.yaml"),
            &format!("simulate {eight} --config three-pods.yaml --bound two.yaml"),
            &format!("simulate {eight} ended.yaml"),
            &format!("explain {eight} --pods ended.yaml one.yaml"),
            "simulate --machine dgx-h100 gpus.yaml",
            "simulate --machine dgx-h100 --device nvidia.com/gpu=a@0,b@1 gpus.yaml",
            &format!("simulate {eight} gpus.yaml"),
            &format!("simulate {eight} --bound gpus.yaml"),
            &format!("simulate {eight} --bound --output yaml hog.yaml"),
            &format!("explain {eight} hog.yaml"),
            &format!("explain {eight} --bound hog.yaml"),
            "explain --machine '2 cores' one.yaml",
            &format!("explain {eight} --output json gpus.yaml"),
            "simulate --nodes filters.yaml filtered.yaml",
            "explain --nodes filters.yaml filtered.yaml",
            "explain --nodes filters.yaml hog.yaml",
            "simulate --nodes filters.yaml --bound hog.yaml",
            "simulate --nodes zones.yaml --output yaml spread.yaml",
        ],
    );
}

#[test]
fn clusters() {
    let design = "../../../pinfold-kube/fixtures/node-resource-topology.yaml";
    check(
        "clusters",
        &[
            "simulate --copies 2 --machine '2 sockets, 4 cores, smt2' two.yaml",
            "simulate --as koordinator --machine '2 sockets, 4 cores, smt2' two.yaml",
            "simulate --as volcano --copies 12 --machine '2 sockets, 2 cores' two.yaml",
            "simulate --as koordinator --nodes koordinator.yaml --output yaml lsr.yaml",
            "simulate --as koordinator --nodes koordinator.yaml lsr.yaml",
            "simulate --as koordinator --machine '2 cores' --script steps.yaml two.yaml",
            "simulate --as koordinator --machine '2 sockets, 4 cores, smt2' --policy none --output yaml burst.yaml",
            &format!("simulate --nodes {design} two.yaml"),
            "simulate --nodes counted.yaml two.yaml",
            &format!("explain --as koordinator --nodes {design} lsr.yaml"),
            "explain --as koordinator --nodes koordinator.yaml --output json lsr.yaml",
            "explain --as volcano --machine '2 sockets, 4 cores' --copies 2 --pods two.yaml one.yaml",
            "explain --as koordinator --nodes bad-annotation.yaml lsr.yaml",
            "explain --as koordinator --nodes koordinator.yaml --state /x lsr.yaml",
            "explain --scheduler-config good.yaml --copies 2 --machine '2 cores' one.yaml",
            "simulate --nodes one.yaml two.yaml",
        ],
    );
}

#[test]
fn deciders() {
    let split = "--machine '2 sockets, 2 cores, smt2, numbering=adjacent' --config split-cores.yaml pair.yaml";
    let plugin = "--as scheduler-plugins --nodes node-topologies.yaml";
    check(
        "deciders",
        &[
            &format!("simulate {split}"),
            &format!("simulate --as pinfold {split}"),
            &format!("explain {split}"),
            "simulate --machine '9 sockets, 2 cores' pair.yaml",
            "simulate --machine '9 sockets, 2 cores' --output json pair.yaml",
            "check --machine '9 sockets, 2 cores' --config nine-numa-nodes-forbidden.yaml",
            "simulate --as kubelet-1.12 --machine '2 cores' pair.yaml",
            &format!("simulate {plugin} two.yaml"),
            &format!("simulate {plugin} --scheduler-config most-allocated.yaml two.yaml"),
            &format!("explain {plugin} one.yaml"),
            "simulate --as pinfold --nodes koordinator-rules.yaml --machine '2 sockets, 4 cores, smt2' --policy none burst.yaml",
            "defragment --as volcano --machine '2 cores' pair.yaml",
        ],
    );
}

#[test]
fn explain() {
    check(
        "explain",
        &[
            "explain --machine '2 sockets, 4 cores, smt2' one.yaml",
            "explain --machine '2 sockets, 4 cores, smt2' --pods two.yaml one.yaml",
            "explain --machine '2 sockets, 4 cores, smt2' --policy none --pods two.yaml one.yaml",
        ],
    );
}

#[test]
fn defragment() {
    let fragmented = "--machine '2 sockets, 8 cores' --config ../../../../examples/fragmented-node/kubelet.yaml \
                      --pods ../../../../examples/fragmented-node/pods.yaml --script holes.yaml";
    check(
        "defragment",
        &[
            &format!("defragment {fragmented} six.yaml"),
            &format!("defragment {fragmented} six.yaml --output yaml"),
            &format!("explain {fragmented} six.yaml"),
            "defragment --machine '2 sockets, 4 cores' --pods two.yaml one.yaml",
            "defragment --machine '2 sockets, 4 cores, smt2' --pods two.yaml one.yaml",
            "defragment --machine '2 sockets, 4 cores, smt2' one.yaml",
        ],
    );
}

#[test]
fn capacity() {
    let cluster = "--nodes ../../../../examples/replica-capacity/cluster.yaml";
    check(
        "capacity",
        &[
            "capacity --machine '2 sockets, 4 cores, smt2' one.yaml",
            "capacity --machine '2 sockets, 4 cores, smt2' --pods two.yaml --compare one.yaml",
            "capacity --machine '2 sockets, 4 cores' hog.yaml",
            "capacity --machine '2 sockets, 4 cores' --output yaml pair.yaml",
            &format!("capacity {cluster} -f one.yaml"),
            &format!("capacity {cluster} -f one.yaml --compare --output json"),
            "capacity --copies 3000 --machine '2 sockets, 4 cores, smt2' one.yaml",
            "capacity --nodes filters.yaml filtered.yaml",
            "capacity --as koordinator --nodes koordinator.yaml lsr.yaml",
            "capacity --as volcano --nodes koordinator.yaml --compare lsr.yaml",
            &format!("capacity {cluster} --state kubelet one.yaml"),
            &format!("capacity {cluster} --script steps.yaml one.yaml"),
        ],
    );
}

#[test]
fn upgrade() {
    let examples = "../../../../examples/kubelet-upgrade";
    let eight = "--machine '2 sockets, 4 cores, smt2'";
    check(
        "upgrade",
        &[
            &format!(
                "upgrade --to 1.36 --nodes {examples}/cluster.yaml --config {examples}/kubelet.yaml"
            ),
            &format!(
                "upgrade --from 1.33 --to 1.34 --nodes {examples}/cluster.yaml --machine '2 sockets, 4 cores, smt2' --output yaml"
            ),
            &format!(
                "upgrade --from 1.33 --to 1.36 {eight} --config {examples}/full.yaml --pods {examples}/full-pods.yaml --output json"
            ),
            &format!(
                "upgrade --from 1.36 --to 1.30 {eight} --config split-cores.yaml --pods two.yaml"
            ),
            &format!("upgrade --from 1.33 --to 1.37 {eight} --state kubelet"),
            &format!("upgrade --from 1.36 --to 1.99 {eight} --pods two.yaml"),
            &format!(
                "upgrade --from 1.35 --to 1.36 {eight} --config three-pods.yaml --pods two.yaml"
            ),
            "upgrade --from 1.35 --to 1.36 --machine '9 sockets, 2 cores'",
            &format!("upgrade --to 1.36 {eight} --pods two.yaml"),
            &format!("upgrade --from 1.12 --to 1.36 {eight}"),
            &format!("upgrade --from 1.35 --to newest {eight}"),
            &format!("upgrade --from 1.35 --to 1.36 --as pinfold {eight}"),
            "upgrade --from 1.35 --to 1.36 --journal x",
            &format!("upgrade --to 1.36 --nodes {examples}/cluster.yaml --state kubelet"),
            "upgrade --to 1.36 --nodes one.yaml",
        ],
    );
}

#[test]
fn starting_states() {
    let eight = "--machine '2 sockets, 4 cores, smt2'";
    check(
        "starting-states",
        &[
            &format!("simulate {eight} --pods two.yaml one.yaml"),
            &format!("simulate {eight} --pods two.yaml --script roll-two.yaml one.yaml"),
            &format!("simulate {eight} --pods two.yaml --pods two.yaml one.yaml"),
            &format!("simulate {eight} --state kubelet two.yaml"),
            &format!("simulate {eight} --state kubelet --script remove-a.yaml two.yaml"),
            &format!("explain {eight} --state kubelet one.yaml"),
            &format!("explain {eight} --state kubelet --script remove-a.yaml one.yaml"),
            &format!("capacity {eight} --state kubelet one.yaml"),
            &format!("defragment {eight} --state kubelet one.yaml"),
            &format!("defragment {eight} --pods two.yaml hog.yaml"),
            &format!("defragment {eight} --pods two.yaml --bound one.yaml"),
            &format!("simulate {eight} --state kubelet --journal x two.yaml"),
            &format!("simulate {eight} --journal x two.yaml"),
            "simulate --copies 2 --machine '2 sockets, 4 cores, smt2' --pods two.yaml one.yaml",
            "simulate --copies 2 --machine '2 sockets, 4 cores, smt2' --state kubelet one.yaml",
        ],
    );
}

#[test]
fn check_configurations() {
    check(
        "check",
        &[
            "check --config good.yaml --machine '2 sockets, 4 cores, smt2'",
            "check --config good.yaml --machine '2 cores'",
            "check --config bad.yaml --machine gb200-nvl4",
            "check --config misspelt.yaml --machine '2 cores'",
            "check --config unmanaged.yaml --machine '2 cores' --output json",
        ],
    );
}

#[test]
fn dry_runs() {
    check(
        "run",
        &[
            "run --dry-run --machine '2 sockets, 4 cores, smt2' --cpus 4 --memory 2Gi -- ./simulation",
            "run --dry-run --machine '2 sockets, 4 cores, smt2' --cpus 500m -- ./helper --fast",
            "run --dry-run --machine '2 sockets, 4 cores, smt2' --cpus 8 --policy restricted -- ./simulation",
            "run --dry-run --machine '2 sockets, 4 cores, smt2' --cpus 8 --policy single-numa-node --memory 1Gi -- ./simulation",
            "run --dry-run --machine '2 sockets, 4 cores, smt2' --cpus 64 -- ./simulation",
            "run --dry-run --machine '2 cores, hugepages-2Mi=32' --hugepages-2Mi 128Mi --memory 1Gi --cpus 1 -- x",
            "run --dry-run --machine '2 cores' --cpus 1 --output yaml -- x",
            "run --cpus 0 -- x",
            "run --cpus 500m --exclusive -- x",
            "run --machine '2 cores' -- x",
            "run --cpus 2",
        ],
    );
}

#[test]
fn demo() {
    check("demo", &["demo"]);
}

#[test]
fn mistakes() {
    check(
        "mistakes",
        &[
            "topology --machine dgx-h10",
            "topology --machine '2 sokets, 8 cores'",
            "topology --machine dgx-h100 --record x",
            "simulate --machine '2 cores' missing.yaml",
            "simulate --machine '2 cores' wrong.yaml",
            "simulate --machine '2 cores' --config misspelt.yaml one.yaml",
            "simulate --machine '2 cores' --config good.yaml one.yaml",
            "simulate --machine '2 cores' --script wrong-step.yaml one.yaml",
            "simulate --machine '2 cores' --script unknown-pod.yaml one.yaml",
            "simulate --machine '2 cores' --script twice.yaml one.yaml",
            "simulate --machine '2 cores' --device gpu one.yaml",
            "simulate --machine '2 cores' --device example.com/gpu=gpu one.yaml",
            "simulate --machine '2 cores' --device example.com/gpu=gpu0@1 one.yaml",
            "simulate --machine '2 cores' --device example.com/gpu=gpu0@x one.yaml",
            "simulate --machine '2 cores' --devices-file steps.yaml one.yaml",
            "explain --machine '2 cores' --state . one.yaml",
            "check --config one.yaml --machine '2 cores'",
        ],
    );
}

#[test]
fn checkpoint() {
    let machine = "--machine '2 sockets, 4 cores, smt2' --kubelet-root kubelet --dry-run";
    check(
        "checkpoint",
        &[
            &format!("checkpoint {machine} chosen.yaml"),
            &format!("checkpoint {machine} chosen.yaml --output yaml"),
            &format!("checkpoint {machine} reserved.yaml"),
            &format!("checkpoint {machine} two.yaml"),
        ],
    );
}

#[test]
fn help() {
    check(
        "help",
        &[
            "--help",
            "presets",
            "presets --help",
            "topology --help",
            "simulate --help",
            "explain --help",
            "defragment --help",
            "capacity --help",
            "check --help",
            "upgrade --help",
            "checkpoint --help",
            "run --help",
            "ps --help",
            "admit --help",
            "release --help",
            "status --help",
            "settings --help",
            "journal --help",
            "serve --help",
        ],
    );
}
