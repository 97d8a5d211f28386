//! The program under the names that kubectl looks for.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::{Run, root, run, scratch, words};

/// Runs the program under another name.
fn called(name: &str, line: &str) -> Run {
    let folder = PathBuf::from(scratch()).join("plugin");
    std::fs::create_dir_all(&folder).expect("writable");
    let link = folder.join(name);
    // Whoever comes second finds it there.
    let _ = symlink(env!("CARGO_BIN_EXE_pinfold"), &link);
    let output = Command::new(&link)
        .args(words(line))
        .current_dir(root().join("examples/running-cluster"))
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    output.into()
}

#[test]
fn a_link_that_kubectl_finds_is_the_cluster_command() {
    for line in [
        "top --nodes cluster.yaml",
        "explain pod trainer-3 -n ml --nodes cluster.yaml",
        "view node gpu-1 --nodes cluster.yaml -o svg",
    ] {
        let plugin = called("kubectl-pinfold", line);
        let folder = root().join("examples/running-cluster");
        let own = run(&folder, &words(&format!("cluster {line}")));
        assert_eq!(plugin.seen(), own.seen(), "{line}");
        assert_eq!(plugin.code, own.code, "{line}");
    }
    let help = called("kubectl-pinfold", "top --help");
    assert!(
        help.stdout.contains("Usage: kubectl pinfold top"),
        "{}",
        help.stdout
    );
    assert_eq!(called("kubectl-pinfold", "simulate").code, 2);
}

#[test]
fn kubectl_is_told_how_words_go_on() {
    for (line, expected) in [
        ("ex", "explain\n:4\n"),
        ("explain po", "pod\n:4\n"),
        ("top --sort na", "name\n:4\n"),
    ] {
        assert_eq!(
            called("kubectl_complete-pinfold", line).stdout,
            expected,
            "{line}"
        );
    }
}
