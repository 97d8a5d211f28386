//! The program under the name by which kubectl asks for completions.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::{Run, root, run, scratch, words};

/// Runs the program through a link of another name.
fn run_as(name: &str, line: &str) -> Run {
    let folder = PathBuf::from(scratch()).join("plugin");
    std::fs::create_dir_all(&folder).expect("writable");
    let link = folder.join(name);
    // Another test may have created it.
    let _ = symlink(crate::PROGRAM, &link);
    let output = Command::new(&link)
        .args(words(line))
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    output.into()
}

/// The candidates for the last word of a line.
pub(crate) fn complete(line: &str) -> Run {
    run_as("kubectl_complete-pinfold", line)
}

#[test]
fn the_link_completes_commands_flags_and_values() {
    for (line, expected) in [
        ("ex", "explain\n:4\n"),
        ("explain po", "pod\n:4\n"),
        ("top --sort na", "name\n:4\n"),
    ] {
        let completed = run_as("kubectl_complete-pinfold", line);
        assert_eq!(completed.stdout, expected, "{line}");
    }
}

#[test]
fn help_shows_the_command_as_kubectl_users_type_it() {
    let help = run(&root(), &words("top --help")).stdout;
    assert!(help.contains("Usage: kubectl pinfold top"), "{help}");
    assert_eq!(run(&root(), &["simulate"]).code, 2);
}
