//! `snapshot`: every command answers from the file as it does from the objects.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{root, run, scratch, words};

/// Files with objects, and questions about them. `{}` is the file.
const QUESTIONS: [(&str, &[&str]); 3] = [
    (
        "examples/running-cluster/cluster.yaml",
        &[
            "top --nodes {}",
            "explain pod trainer-3 -n ml --nodes {}",
            "explain pod trainer-1 -n ml --nodes {}",
            "explain pod db-0 -n shop --nodes {}",
            "view node worker-1 --nodes {}",
            "doctor --nodes {}",
            "capacity -f examples/replica-capacity/encoder.yaml --compare --nodes {}",
            "capacity --as scheduler-plugins -f examples/replica-capacity/encoder.yaml --nodes {}",
        ],
    ),
    (
        "crates/pinfold/tests/inputs/koordinator.yaml",
        &[
            "top --as koordinator --nodes {}",
            "explain pod old --as koordinator --nodes {}",
            "view node left --as koordinator --nodes {}",
            "capacity --as koordinator -f crates/pinfold/tests/inputs/lsr.yaml --nodes {}",
        ],
    ),
    (
        "examples/volcano-job/nodes.yaml",
        &[
            "top --as volcano --nodes {}",
            "capacity --as volcano -f examples/volcano-job/job.yaml --nodes {}",
        ],
    ),
];

fn snapshot(source: &str, name: &str, flags: &str) -> PathBuf {
    let file = Path::new(scratch()).join(name);
    let line = format!("snapshot --nodes {source} {flags} {}", file.display());
    let found = run(&root(), &words(&line));
    assert_eq!(found.code, 0, "{}", found.output());
    file
}

fn ask(question: &str, file: &str) -> (i32, String) {
    let found = run(&root(), &words(&question.replace("{}", file)));
    (found.code, found.stdout)
}

#[test]
fn a_snapshot_gives_the_answers_of_the_objects_it_was_made_from() {
    for (index, (source, questions)) in QUESTIONS.iter().enumerate() {
        for name in [
            format!("snapshot-{index}.json"),
            format!("snapshot-{index}.json.gz"),
        ] {
            let file = snapshot(source, &name, "");
            let mode = fs::metadata(&file)
                .expect("it is there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
            for question in *questions {
                let before = ask(question, source);
                assert_eq!(
                    ask(question, &file.display().to_string()),
                    before,
                    "{question}"
                );
                assert!(!before.1.is_empty(), "{question}");
            }
        }
    }
}

/// The value with all texts left out: names, and sentences with names.
fn numbers(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::Null,
        Value::Array(items) => items.iter().map(numbers).collect(),
        Value::Object(members) => {
            let members = members.iter();
            members
                .map(|(key, value)| (key.clone(), numbers(value)))
                .collect()
        }
        other => other.clone(),
    }
}

#[test]
fn a_scrambled_snapshot_gives_the_same_answers_up_to_names() {
    for (index, (source, questions)) in QUESTIONS.iter().enumerate() {
        let file = snapshot(source, &format!("scrambled-{index}.json"), "--scramble");
        let file = file.display().to_string();
        let about_all =
            |question: &&&str| question.starts_with("top") || question.starts_with("capacity");
        for question in questions.iter().filter(about_all) {
            let question = format!("{question} -o json");
            let [before, after] = [source, &file.as_str()].map(|file| {
                let (code, text) = ask(&question, file);
                let value: Value = serde_json::from_str(&text).expect(&question);
                (code, numbers(&value))
            });
            assert_eq!(after, before, "{question}");
        }
    }
}

#[test]
fn a_scrambled_snapshot_has_none_of_the_names() {
    let source = QUESTIONS[0].0;
    let file = snapshot(source, "without-names.json", "--scramble");
    let text = fs::read_to_string(file).expect("it is there");
    for name in [
        "gpu-1",
        "worker-1",
        "control-1",
        "trainer",
        "notebook",
        "\"ml\"",
        "\"shop\"",
        "db-0",
    ] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    assert!(
        text.contains("node-role.kubernetes.io/control-plane"),
        "keys stay: {text}"
    );
}
