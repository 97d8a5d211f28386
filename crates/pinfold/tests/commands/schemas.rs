//! The JSON of every command has the schema in `docs/schema`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Run, root, run, words};
use crate::schema;
use crate::server::{TestServer, serve};

/// Commands without results as data: an example for people, the child of `run`, completions and man pages.
const TEXT_ONLY: [&str; 6] = ["demo", "serve", "__exec", "completions", "man", "help"];

fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs")
}

/// Compares the JSON that a command printed with its schema.
fn check(command: &str, line: &str, printed: &Run) {
    let name = format!("docs/schema/pinfold-{command}.json");
    let text = fs::read_to_string(root().join(&name)).unwrap_or_else(|_| panic!("no {name}"));
    let schema: Value = serde_json::from_str(&text).expect(&name);
    let json: Value = serde_json::from_str(&printed.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}: {}", printed.output()));
    let error = schema::error(&schema, &json);
    assert_eq!(error, None, "{line} does not fit {name}");
}

/// The words of a line with `-o json` instead of its own format; `None` if the line prints no result.
fn as_json(line: &str) -> Option<Vec<String>> {
    let mut words = words(line);
    if words.iter().any(|word| word == "--help") {
        return None;
    }
    let format = |word: &String| word == "-o" || word == "--output";
    if let Some(at) = words.iter().position(format) {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.splice(1..1, ["-o".to_owned(), "json".to_owned()]);
    Some(words)
}

/// The command lines of the snapshots, with the commands that they run.
fn snapshot_lines() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).expect("snapshots") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("text");
        for line in text.lines() {
            let Some(line) = line.strip_prefix("$ pinfold ") else {
                continue;
            };
            let command = line.split(' ').next().unwrap_or_default();
            if !command.starts_with('-') && !TEXT_ONLY.contains(&command) {
                lines.push((command.to_owned(), line.to_owned()));
            }
        }
    }
    lines
}

#[test]
fn every_snapshot_as_json_has_the_schema_of_its_command() {
    let mut lines = snapshot_lines();
    let vectors = "conformance ../../../../conformance/kubelet --family bitmask";
    lines.push(("conformance".to_owned(), vectors.to_owned()));
    lines.push(("topology".to_owned(), "topology".to_owned()));
    lines.push((
        "topology".to_owned(),
        "topology --machine '1 socket, 2 numa, 2 cores, hugepages-2Mi=8, cpuless=2'".to_owned(),
    ));
    let mut seen = BTreeSet::new();
    for (command, line) in lines {
        // A run without --dry-run prints what its command prints.
        let Some(words) = as_json(&line) else {
            continue;
        };
        if command == "run" && !line.contains("--dry-run") {
            continue;
        }
        let printed = run(&inputs(), &words);
        if printed.code <= 1 && !printed.stdout.is_empty() {
            check(&command, &line, &printed);
            seen.insert(command);
        }
    }
    let expected = [
        "check",
        "checkpoint",
        "conformance",
        "defragment",
        "explain",
        "presets",
        "run",
        "simulate",
        "topology",
        "upgrade",
    ];
    for command in expected {
        assert!(seen.contains(command), "no snapshot of {command}");
    }
}

#[test]
fn clients_of_the_agent_print_json_with_their_schemas() {
    let served = serve();
    let pod = served.socket.with_file_name("web.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, resources: {limits: \
                {cpu: 4, memory: 1Mi}}}]}\n";
    fs::write(&pod, text).expect("written");
    let rules = served.socket.with_file_name("kubelet.yaml");
    let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n\
                topologyManagerPolicy: restricted\nsystemReserved: {cpu: '2'}\n";
    fs::write(&rules, text).expect("written");
    let (pod, rules) = (pod.to_str().expect("text"), rules.to_str().expect("text"));
    for words in [
        &["status"][..],
        &["admit", pod],
        &["ps"],
        &["status"],
        &["settings", rules, "--dry-run"],
        &["release", "default/web"],
    ] {
        let printed = with_socket(&served, words);
        assert_eq!(printed.code, 0, "{}", printed.output());
        check(words[0], words[0], &printed);
    }
    let journal = served.socket.with_file_name("../state/journal");
    let journal = journal.to_str().expect("text");
    let line = ["journal", "--file", journal, "-o", "json"];
    check("journal", "journal", &run(&inputs(), &line));
    let replayed = run(&inputs(), &["simulate", "--journal", journal, "-o", "json"]);
    check("simulate", "simulate --journal", &replayed);
}

fn with_socket(served: &TestServer, words: &[&str]) -> Run {
    let socket = served.socket.to_str().expect("text");
    let (command, rest) = words.split_first().expect("a command");
    let all = [&[*command, "--socket", socket, "-o", "json"], rest].concat();
    run(&inputs(), &all)
}

#[test]
fn every_command_has_json_and_a_schema_that_the_page_links_to() {
    let help = run(&root(), &["--help"]).stdout;
    let commands = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|command| !command.is_empty() && !TEXT_ONLY.contains(command));
    let page = fs::read_to_string(root().join("docs/command-line.md")).expect("the page");
    let mut count = 0;
    for command in commands {
        let help = run(&root(), &[command, "--help"]).stdout;
        assert!(help.contains("--output"), "{command} has no -o json");
        let link = format!("schema/pinfold-{command}.json");
        assert!(root().join("docs").join(&link).exists(), "no docs/{link}");
        assert!(page.contains(&link), "the page has no link to {link}");
        count += 1;
    }
    assert!(count > 10, "{help}");
}
