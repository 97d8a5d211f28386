//! The program `pinfold-agent`: its flags and exit codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, args: &[&str]) -> Output {
    let _lock = super::faults::exclusive_lock();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold-agent"));
    let output = command.args(args).current_dir(folder).output();
    output.expect("the program starts")
}

#[test]
fn check_config_prints_a_complete_configuration_or_the_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    let args = ["--check-config", "--config", "config.yaml"];
    fs::write(&file, "mode: mirror\n").expect("written");
    let first = run(folder.path(), &args);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    fs::write(&file, &first.stdout).expect("written");
    assert_eq!(run(folder.path(), &args).stdout, first.stdout);
    fs::write(&file, "mode: mirorr\n").expect("written");
    let wrong = run(folder.path(), &args);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let message = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        message.starts_with("pinfold-agent: config.yaml"),
        "{message}"
    );
    assert!(message.contains("did you mean \"mirror\"?"), "{message}");
}

#[test]
fn completions_and_man_pages_name_the_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(folder.path(), &["completions", shell]).stdout;
        assert!(
            String::from_utf8_lossy(&script).contains("check-config"),
            "{shell}"
        );
    }
    assert!(run(folder.path(), &["man", "."]).status.success());
    let page = fs::read_to_string(folder.path().join("pinfold-agent.1")).expect("a page");
    assert!(page.contains("check\\-config"), "{page}");
}
