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
