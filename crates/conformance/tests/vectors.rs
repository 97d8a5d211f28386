//! Every decision of the committed vectors, replayed through the public API of the core.

use std::path::Path;

fn replay(system: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance")
        .join(system);
    let report =
        conformance::run(&folder, None, 3).expect("the vectors are part of the repository");
    let cases: usize = report.families.iter().map(|family| family.cases).sum();
    assert!(cases >= least, "only {cases} cases of {system} were found");
    assert!(report.is_success(), "{report:#?}");
}

#[test]
fn the_kubelets_decisions_are_reproduced() {
    replay("kubelet", 18_000);
}

#[test]
fn koordinators_decisions_are_reproduced() {
    replay("koordinator", 5_000);
}

#[test]
fn volcanos_decisions_are_reproduced() {
    replay("volcano", 3_000);
}

#[test]
fn the_decisions_of_scheduler_plugins_are_reproduced() {
    replay("scheduler-plugins", 2_000);
}

#[test]
fn a_folder_without_vectors_and_an_unknown_family_are_errors() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/kubelet");
    let unknown = conformance::run(&vectors, Some("mergers"), 0)
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("mergers") && unknown.contains("pod_cpu_requests"),
        "{unknown}"
    );
    let empty = conformance::run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, 0);
    assert!(empty.unwrap_err().to_string().contains("no test vectors"));
}

#[test]
fn a_wrong_answer_is_noticed() {
    let folder = std::env::temp_dir()
        .join(format!("pinfold-vectors-{}", std::process::id()))
        .join("kubelet");
    std::fs::create_dir_all(&folder).unwrap();
    let line = r#"{"case":"x","input":{"op":"parse","text":"0-3"},"expect":{"canonical":"0-2","error":null,"size":3}}"#;
    std::fs::write(folder.join("cpuset.jsonl"), line).unwrap();
    let report = conformance::run(&folder, None, 1).unwrap();
    std::fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    assert!(!report.is_success());
    assert!(
        report.families[0].failures[0]
            .difference
            .contains("expected \"0-2\", found \"0-3\"")
    );
}
