//! The flags and exit codes that every daemon has.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(program: &str, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    let output = command.args(args).current_dir(folder).output();
    output.expect("the program starts")
}

/// `--check-config` prints a complete configuration, or the error with a suggestion.
pub(crate) fn check_config(program: &str, valid: &str, misspelt: &str, suggestion: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    let run = || {
        let args = ["--check-config", "--config", "config.yaml"];
        run(program, folder.path(), &args)
    };
    fs::write(&file, valid).expect("written");
    let first = run();
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    fs::write(&file, &first.stdout).expect("written");
    assert_eq!(run().stdout, first.stdout);
    fs::write(&file, misspelt).expect("written");
    let wrong = run();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let message = String::from_utf8_lossy(&wrong.stderr);
    let start = format!("{}: config.yaml", name(program));
    assert!(message.starts_with(&start), "{message}");
    assert!(message.contains(suggestion), "{message}");
}

/// Completions and the man page name the flags.
pub(crate) fn manual(program: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(program, folder.path(), &["completions", shell]).stdout;
        assert!(
            String::from_utf8_lossy(&script).contains("check-config"),
            "{shell}"
        );
    }
    assert!(run(program, folder.path(), &["man", "."]).status.success());
    let page = folder.path().join(format!("{}.1", name(program)));
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("check\\-config"), "{page}");
}

fn name(program: &str) -> &str {
    let name = Path::new(program).file_name();
    name.and_then(|name| name.to_str()).expect("a file name")
}
