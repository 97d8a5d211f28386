//! Runs `pinfold`: snapshots of its output, its exit codes, its pages and examples.

mod agent;
mod both_paths;
mod capacity;
mod deciders;
mod documents;
mod errors;
mod examples;
#[path = "../../../pinfold-agent/tests/api/fake_agent.rs"]
mod fake_agent;
mod golden;
mod input;
mod large_snapshot;
mod output;
mod pages;
mod peers;
mod program;
mod schema;
mod schemas;
mod serve;
#[path = "../../../pinfold-agent/tests/api/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the API")]
mod server;
mod snapshots;
mod terminal;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pinfold");
/// The word before its arguments in documents.
const COMMAND: &str = "pinfold";

#[test]
fn every_example_of_the_page_about_the_command_line_prints_what_the_page_shows() {
    assert!(pages::check("docs/command-line.md") > 5);
}

#[test]
fn the_readme_shows_what_the_program_prints_and_draws() {
    assert_eq!(pages::check("README.md"), 1);
    let demo = program::run(&program::root(), &["demo"]);
    assert_eq!(demo.code, 0, "{}", demo.output());
    let drawn = std::fs::read_to_string(program::picture(&demo)).expect("the demo drew a picture");
    golden::check(&program::root().join("docs/demo.svg"), &drawn);
}

#[test]
fn the_page_about_upgrades_shows_what_the_program_prints() {
    assert_eq!(pages::check("docs/upgrade.md"), 6);
}

#[test]
fn every_example_gives_its_expected_output() {
    assert_eq!(examples::check(), 10);
}

#[test]
fn every_line_of_the_pages_that_can_run_on_any_computer_runs() {
    assert!(pages::run_shell_lines() > 6);
}
