//! Runs `kubectl-pinfold`: snapshots of its output, its exit codes, and a cluster behind an API server.

mod completion;
#[path = "../../../pinfold/tests/commands/examples.rs"]
mod examples;
#[path = "../../../pinfold/tests/commands/golden.rs"]
mod golden;
mod live;
mod output;
#[path = "../../../pinfold/tests/commands/pages.rs"]
mod pages;
#[path = "../../../pinfold/tests/commands/program.rs"]
mod program;
#[path = "../../../pinfold/tests/commands/schema.rs"]
mod schema;
mod schemas;
mod snapshot_files;
mod snapshots;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-pinfold");
/// The words before its arguments in documents.
const COMMAND: &str = "kubectl pinfold";

#[test]
fn every_example_of_the_page_about_clusters_prints_what_the_page_shows() {
    assert!(pages::check("docs/cluster.md") > 4);
}

#[test]
fn every_example_about_a_cluster_gives_its_expected_output() {
    assert_eq!(examples::check(), 2);
}

#[test]
fn every_line_of_the_pages_that_can_run_without_a_cluster_runs() {
    assert!(pages::run_shell_lines() >= 1);
}
