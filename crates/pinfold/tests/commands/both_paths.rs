//! One machine and a cluster with one such node give the same answers.

use std::fs;
use std::path::Path;

use crate::program::{root, run, scratch, words};

const MACHINE: &str = "--machine '2 sockets, 4 cores'";
/// The Node object of the machine: what is left of 8 CPUs and 128 GiB without the reserved core and 1 GiB.
const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n\
                    status: {allocatable: {cpu: 7, memory: 127Gi, pods: 110, ephemeral-storage: 10Gi}}\n";

fn file(name: &str, text: &str) -> String {
    let path = Path::new(scratch()).join(format!("both-{name}.yaml"));
    fs::write(&path, text).expect("writable");
    path.display().to_string()
}

/// A pod with these fields of its spec and status.
fn pod(spec: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\nstatus: {{{status}}}\n"
    )
}

/// A container with these resources.
fn container(name: &str, resources: &str) -> String {
    format!("{{name: {name}, resources: {{{resources}}}}}")
}

/// The lines of an answer about pod `p`, without line breaks.
fn answer(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn the_sums_and_predicates_of_one_machine_and_of_a_node_of_a_cluster_are_the_same() {
    let nodes = file("node", NODE);
    let four = container("main", "limits: {cpu: 4, memory: 1Gi}");
    let shared = container("main", "requests: {cpu: 4, memory: 1Gi}");
    let eight = container("main", "requests: {cpu: 8, memory: 1Gi}");
    let pending = "Pending: 0/1 nodes are available: 1 Insufficient cpu. (cpu: 8 asked, 7 left)";
    let out_of_cpu =
        "OutOfcpu: Node didn't have enough resource: cpu, requested: 8000, used: 0, capacity: 7000";
    // The pod, whether it is bound, and what both answers contain.
    let table = [
        (
            "plain",
            pod(&format!("containers: [{shared}]"), ""),
            false,
            "shared pool",
        ),
        (
            "sum",
            pod(&format!("containers: [{eight}]"), ""),
            false,
            pending,
        ),
        (
            "sum-bound",
            pod(&format!("containers: [{eight}]"), ""),
            true,
            out_of_cpu,
        ),
        (
            "overhead",
            pod(&format!("overhead: {{cpu: 4}}, containers: [{shared}]"), ""),
            false,
            pending,
        ),
        (
            "overhead-bound",
            pod(&format!("overhead: {{cpu: 4}}, containers: [{shared}]"), ""),
            true,
            out_of_cpu,
        ),
        (
            "overhead-of-exclusive-cpus",
            pod(
                &format!("overhead: {{cpu: 3500m}}, containers: [{four}]"),
                "",
            ),
            true,
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 7500, used: 0, capacity: 7000",
        ),
        (
            "init",
            pod(
                &format!(
                    "initContainers: [{}], containers: [{shared}]",
                    eight.replace("main", "i")
                ),
                "",
            ),
            true,
            out_of_cpu,
        ),
        (
            "sidecar",
            pod(
                &format!(
                    "initContainers: [{{name: s, restartPolicy: Always, resources: {{requests: {{cpu: 4}}}}}}], \
                     containers: [{shared}]"
                ),
                "",
            ),
            false,
            pending,
        ),
        (
            "pod-level",
            pod(
                &format!("resources: {{requests: {{cpu: 8}}}}, containers: [{shared}]"),
                "",
            ),
            true,
            out_of_cpu,
        ),
        (
            "ended",
            pod(&format!("containers: [{eight}]"), "phase: Succeeded"),
            false,
            "has ended: it holds nothing",
        ),
        (
            "critical",
            pod(&format!("priority: 2000001000, containers: [{eight}]"), ""),
            true,
            "the pod is critical: the kubelet would preempt others, which is not simulated",
        ),
        (
            "static",
            pod(&format!("nodeName: node-1, containers: [{eight}]"), "").replace(
                "{name: p}",
                "{name: p, annotations: {kubernetes.io/config.mirror: x}}",
            ),
            false,
            "the pod is critical: the kubelet would preempt others, which is not simulated",
        ),
        (
            "windows",
            pod(
                &format!("os: {{name: windows}}, containers: [{shared}]"),
                "",
            ),
            false,
            "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            "managers-first",
            pod(
                &format!(
                    "containers: [{}]",
                    container("main", "limits: {cpu: 8, memory: 1Gi}")
                ),
                "",
            ),
            true,
            "TopologyAffinityError",
        ),
    ];
    for (name, text, is_bound, expected) in table {
        let pod = file(name, &text);
        let bound = if is_bound { "--bound" } else { "" };
        for target in [MACHINE.to_owned(), format!("{MACHINE} --nodes {nodes}")] {
            let found = run(&root(), &words(&format!("simulate {target} {bound} {pod}")));
            let text = answer(&found.stdout);
            assert!(
                text.contains(expected),
                "{name}: {target}: {}",
                found.output()
            );
        }
    }
}

#[test]
fn a_pod_uses_the_same_sums_on_one_machine_and_on_a_node_of_a_cluster() {
    let nodes = file("used-node", NODE);
    let first = container("main", "requests: {cpu: 2, memory: 1Gi}");
    let overhead = format!("overhead: {{cpu: 3}}, containers: [{first}]");
    let running = file(
        "used-running",
        &pod(&overhead, "").replace("name: p", "name: q"),
    );
    let three = container("main", "requests: {cpu: 3}");
    let next = file("used-next", &pod(&format!("containers: [{three}]"), ""));
    let bound = format!("nodeName: node-1, {overhead}");
    let bound = pod(&bound, "").replace("name: p", "name: q");
    let with_bound = file("used-bound", &format!("{NODE}---\n{bound}"));
    for target in [
        format!("{MACHINE} --pods {running}"),
        format!("{MACHINE} --nodes {nodes} --pods {running}"),
        format!("{MACHINE} --nodes {with_bound}"),
        format!("--nodes {with_bound}"),
    ] {
        let line = format!("simulate {target} {next}");
        let text = answer(&run(&root(), &words(&line)).stdout);
        let expected = "1 Insufficient cpu. (cpu: 3 asked, 2 left)";
        assert!(text.contains(expected), "{target}: {text}");
    }
}
