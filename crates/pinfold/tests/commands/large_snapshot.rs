//! Snapshots of large clusters: the output of `kubectl get nodes,pods -A -o json` with `managedFields`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::program::{run, scratch, words};

/// Writes a list of nodes with 32 CPUs and pods bound to them in turn, the same bytes every time.
fn write(path: &Path, nodes: usize, pods: usize) {
    let mut file = BufWriter::new(File::create(path).expect("writable"));
    let managed = managed_fields();
    write!(file, "{{\"apiVersion\":\"v1\",\"items\":[").expect("writable");
    for node in 0..nodes {
        let comma = if node > 0 { "," } else { "" };
        write!(
            file,
            "{comma}\n{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"node-{node}\",\"managedFields\":{managed},\
             \"labels\":{{\"kubernetes.io/hostname\":\"node-{node}\"}}}},\"spec\":{{}},\"status\":{{\"allocatable\":{{\"cpu\":\"31\",\
             \"memory\":\"60Gi\",\"pods\":\"110\"}},\"capacity\":{{\"cpu\":\"32\",\"memory\":\"64Gi\",\"pods\":\"110\"}}}}}}"
        )
        .expect("writable");
    }
    for pod in 0..pods {
        let resources = match (pod / nodes) % 10 {
            0 => r#"{"limits":{"cpu":"2","memory":"2Gi"},"requests":{"cpu":"2","memory":"2Gi"}}"#,
            _ => r#"{"requests":{"cpu":"100m","memory":"128Mi"}}"#,
        };
        write!(
            file,
            ",\n{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"web-{pod}\",\"namespace\":\"team-{}\",\
             \"uid\":\"00000000-0000-4000-8000-{pod:012}\",\"labels\":{{\"app\":\"web\",\"pod-template-hash\":\"5d4f8\"}},\
             \"managedFields\":{managed}}},\"spec\":{{\"containers\":[{{\"name\":\"main\",\"image\":\"registry.example.com/web:1\",\
             \"resources\":{resources}}}],\"nodeName\":\"node-{}\"}},\"status\":{{\"phase\":\"Running\"}}}}",
            pod % 200,
            pod % nodes,
        )
        .expect("writable");
    }
    write!(file, "],\"kind\":\"List\",\"metadata\":{{}}}}").expect("writable");
    file.flush().expect("writable");
}

/// As long as those of a pod that a Deployment created.
fn managed_fields() -> String {
    let mut fields = String::from(
        "[{\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:spec\":{",
    );
    for i in 0..60 {
        let _ = write!(
            fields,
            "\"f:field{i}\":{{\".\":{{}},\"f:name\":{{}},\"f:value\":{{}}}},"
        );
    }
    fields.push_str(
        "\"f:last\":{}}},\"manager\":\"kube-controller-manager\",\"operation\":\"Update\"}]",
    );
    fields
}

fn file(name: &str) -> PathBuf {
    Path::new(scratch()).join(name)
}

const ONE: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {containers: [{name: c, resources: {limits: \
                   {cpu: 2, memory: 1Gi}}}]}\n";

#[test]
fn a_snapshot_of_many_megabytes_loads_object_by_object() {
    let (snapshot, pod) = (file("large.json"), file("large-pod.yaml"));
    write(&snapshot, 200, 5000);
    fs::write(&pod, ONE).expect("writable");
    assert!(fs::metadata(&snapshot).expect("it is there").len() > 8 << 20);
    let line = format!(
        "explain --machine '2 sockets, 8 cores, smt2' --nodes {} {}",
        snapshot.display(),
        pod.display()
    );
    let found = run(Path::new(scratch()), &words(&line));
    assert_eq!(found.code, 0, "{}", found.output());
    assert!(
        found.stdout.starts_with("Pod new fits 200 of 200 nodes"),
        "{}",
        found.output()
    );
    fs::remove_file(snapshot).expect("it is there");
}

#[test]
fn a_large_snapshot_that_is_no_list_of_objects_is_one_error() {
    let snapshot = file("large-broken.json");
    write(&snapshot, 1, 3000);
    let mut text = fs::read_to_string(&snapshot).expect("it is there");
    text.truncate(text.len() - 100);
    fs::write(&snapshot, text).expect("writable");
    let pod = file("large-broken-pod.yaml");
    fs::write(&pod, ONE).expect("writable");
    let line = format!("simulate --nodes {} {}", snapshot.display(), pod.display());
    let found = run(Path::new(scratch()), &words(&line));
    assert_eq!(found.code, 2, "{}", found.output());
    assert!(
        found.stderr.contains("expected JSON: EOF while parsing"),
        "{}",
        found.stderr
    );
    assert!(found.stderr.lines().count() <= 2, "{}", found.stderr);
    fs::remove_file(snapshot).expect("it is there");
}

/// Writes the snapshot of 5,000 nodes and 150,000 pods to the file that `PINFOLD_SNAPSHOT` names, for measurements.
#[test]
#[ignore = "writes a gigabyte"]
fn write_a_snapshot_for_measurements() {
    if let Some(path) = std::env::var_os("PINFOLD_SNAPSHOT") {
        write(Path::new(&path), 5000, 150_000);
    }
}
