//! Every decision of the committed vectors, replayed through the public API of the core.

use std::collections::BTreeMap;
use std::path::Path;

use conformance::{ConformanceReport, Replayed};

fn replay(system: &str, decider: Replayed, least: usize) -> ConformanceReport {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance")
        .join(system);
    let report = conformance::run(&folder, None, decider, 3)
        .expect("the vectors are part of the repository");
    let cases: usize = report.families.iter().map(|family| family.cases).sum();
    assert!(cases >= least, "only {cases} cases of {system} were found");
    assert!(report.is_success(), "{report:#?}");
    report
}

/// The cases of the kubelet's vectors that Pinfold decides differently, by the defect of the kubelet that it does not
/// repeat. In all other cases its decision is the kubelet's.
const CASES_BY_DEFECT: [(&str, usize); 14] = [
    ("allocates_for_finished_init_containers", 15),
    ("allocates_only_pod_level_types", 12),
    ("allocates_pod_memory_again", 11),
    ("assigns_one_node_of_a_group", 108),
    ("assigns_split_cores", 58),
    ("checks_cores_before_own_cpus", 61),
    ("forgets_pod_sets", 24),
    ("keeps_parts_of_rejected_pods", 59),
    ("limits_numa_nodes", 3),
    ("places_empty_memory_demands", 64),
    ("releases_lowest_node_first", 60),
    ("restarts_like_the_kubelet", 83),
    ("shares_combination_storage", 55),
    ("trusts_reusable_cpus", 482),
];

#[test]
fn the_kubelets_decisions_are_reproduced_and_pinfolds_differ_by_named_defects_only() {
    let report = replay("kubelet", Replayed::Pinfold, 18_000);
    let mut by_defect = BTreeMap::new();
    for family in &report.families {
        for (&defect, count) in &family.defects {
            *by_defect.entry(defect).or_insert(0) += count;
        }
    }
    assert_eq!(by_defect, CASES_BY_DEFECT.into());
    let different: usize = report.families.iter().map(|family| family.different).sum();
    assert_eq!(different, 863);
}

#[test]
fn the_decisions_of_every_kubelet_with_vectors_of_its_own_are_reproduced() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut versions = 0;
    for entry in std::fs::read_dir(all).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        if name.starts_with("kubelet-") {
            replay(name, Replayed::Original, 500);
            versions += 1;
        }
    }
    assert!(versions > 0);
}

#[test]
fn koordinators_decisions_are_reproduced() {
    replay("koordinator", Replayed::Original, 5_000);
}

#[test]
fn volcanos_decisions_are_reproduced() {
    replay("volcano", Replayed::Original, 3_000);
}

#[test]
fn the_decisions_of_scheduler_plugins_are_reproduced() {
    replay("scheduler-plugins", Replayed::Original, 2_000);
}

#[test]
fn a_folder_without_vectors_and_an_unknown_family_are_errors() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/kubelet");
    let unknown = conformance::run(&vectors, Some("mergers"), Replayed::Original, 0)
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("mergers") && unknown.contains("pod_cpu_requests"),
        "{unknown}"
    );
    let empty = conformance::run(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        None,
        Replayed::Original,
        0,
    );
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
    let report = conformance::run(&folder, None, Replayed::Original, 1).unwrap();
    std::fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    assert!(!report.is_success());
    assert!(
        report.families[0].failures[0]
            .difference
            .contains("expected \"0-2\", found \"0-3\"")
    );
}
