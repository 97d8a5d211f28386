//! Rules for the output of all commands.

use std::fs;

use crate::program::{Run, root, run, scratch, words};

const COMMANDS: [&str; 6] = [
    "top --nodes cluster.yaml",
    "explain pod trainer-3 -n ml --nodes cluster.yaml",
    "explain pod trainer-1 -n ml --nodes cluster.yaml",
    "view node gpu-1 --nodes cluster.yaml",
    "doctor --nodes ../cluster-doctor/cluster.yaml",
    "capacity -f ../replica-capacity/encoder.yaml --nodes cluster.yaml --compare",
];

fn play(line: &str) -> Run {
    run(&root().join("examples/running-cluster"), &words(line))
}

#[test]
fn json_and_yaml_are_the_same_value() {
    for line in COMMANDS {
        let json = play(&format!("{line} -o json")).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect(line);
        let yaml = play(&format!("{line} -o yaml")).stdout;
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).expect(line);
        assert_eq!(json, yaml, "{line}");
    }
}

#[test]
fn text_has_no_colour_codes_and_fits_80_columns() {
    for line in COMMANDS {
        let text = play(line).stdout;
        assert!(!text.is_empty(), "{line}");
        assert!(!text.contains('\u{1b}'), "{line}");
        for row in text.lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

#[test]
fn completions_and_man_pages_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = play(&format!("completions {shell}")).stdout;
        for command in ["explain", "top", "view", "capacity", "doctor", "snapshot"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let folder = format!("{}/man", scratch());
    fs::create_dir_all(&folder).expect("writable");
    assert_eq!(play(&format!("man {folder}")).code, 0);
    for page in [
        "kubectl-pinfold",
        "kubectl-pinfold-top",
        "kubectl-pinfold-explain-pod",
    ] {
        let text = fs::read_to_string(format!("{folder}/{page}.1"));
        assert!(text.expect(page).starts_with(".ie"), "{page}");
    }
}
