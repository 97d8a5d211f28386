//! Colour and line width on a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::program::{root, scratch, words};

/// The output of the program on a terminal of so many columns.
fn on_terminal(columns: u16, environment: &[(&str, &str)], line: &str) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it is ours");
    let size = Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).expect("a size");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().expect("a path"))
        .expect("the other end");
    let other = || theirs.try_clone().expect("one more");
    let mut child = Command::new(crate::PROGRAM)
        .args(words(line))
        .current_dir(root().join("crates/pinfold/tests/inputs"))
        .env("TMPDIR", scratch())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .envs(environment.iter().copied())
        .stdin(other())
        .stdout(other())
        .stderr(other())
        .spawn()
        .expect("the program starts");
    drop(theirs);
    let mut output = Vec::new();
    // Reading fails with EIO when the program has closed its end.
    let _ = File::from(ours).read_to_end(&mut output);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&output).replace("\r\n", "\n")
}

/// The text without colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

const MACHINE: &str = "--machine '2 sockets, 2 numa, 16 cores, smt2'";

#[test]
fn colour_is_used_on_a_terminal_without_no_color() {
    let line = format!("simulate {MACHINE} --repeat 4 two.yaml");
    let coloured = on_terminal(80, &[], &line);
    assert!(coloured.contains("\u{1b}["), "{coloured}");
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let seen = on_terminal(80, &[environment], &line);
        assert!(!seen.contains('\u{1b}'), "{environment:?}: {seen}");
        assert_eq!(seen, plain(&coloured), "only colour differs");
    }
    let empty = on_terminal(80, &[("NO_COLOR", "")], &line);
    assert_eq!(empty, coloured, "an empty NO_COLOR is not set");
}

#[test]
fn lines_are_as_wide_as_the_terminal() {
    for (line, least) in [
        // A word, a table and the lines of an outline are as wide as they are.
        (format!("simulate {MACHINE} --repeat 40 two.yaml"), 60),
        (format!("topology {MACHINE}"), 60),
        (
            "check --machine gb200-nvl4 --config bad.yaml".to_owned(),
            40,
        ),
        // A table is as wide as its columns.
        (
            format!("simulate {MACHINE} --repeat 40 --compare two.yaml"),
            80,
        ),
    ] {
        let rows = |columns: u16, most: usize| {
            let seen = plain(&on_terminal(columns, &[], &line));
            assert!(
                !seen.contains('\r'),
                "no progress bar within a second: {seen}"
            );
            for row in seen.lines() {
                assert!(row.chars().count() <= most, "{columns} columns: {row}");
            }
            seen.lines().count()
        };
        let lines = [
            rows(40, least),
            rows(60, least.max(60)),
            rows(80, 80),
            rows(200, 200),
        ];
        assert!(lines.is_sorted_by(|a, b| a >= b), "{line}: {lines:?}");
        assert!(
            lines[0] > lines[3] || line.contains("--compare"),
            "{line}: {lines:?}"
        );
        rows(0, 80);
    }
}

#[test]
fn rejections_are_red_and_headings_bold() {
    let line = "explain --machine '2 cores' --bound one.yaml";
    let coloured = on_terminal(80, &[], line);
    assert!(
        coloured.contains("\u{1b}[31mPod one (container main) is rejected, "),
        "{coloured}"
    );
    assert!(coloured.contains("\u{1b}[1mCPUs\u{1b}[0m"), "{coloured}");
    assert_eq!(
        on_terminal(80, &[], &format!("--color never {line}")),
        plain(&coloured)
    );
}
