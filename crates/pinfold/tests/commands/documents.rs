//! The documents speak of things that exist.

#![expect(clippy::unwrap_used, reason = "a failing test is the point of a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that show where we differ from a program, and the table of its defects.
const DIFFERENCES: [(&str, &str); 5] = [
    (
        "docs/kubelet-differences.md",
        "crates/pinfold-core/src/fidelity/kubelet.rs",
    ),
    (
        "docs/kubelet-differences.md",
        "crates/pinfold-core/src/fidelity/version.rs",
    ),
    (
        "docs/koordinator-differences.md",
        "crates/pinfold-cluster/src/koordinator/defects.rs",
    ),
    (
        "docs/volcano-differences.md",
        "crates/pinfold-cluster/src/volcano/defects.rs",
    ),
    (
        "docs/node-topology-differences.md",
        "crates/pinfold-cluster/src/node_topology/defects.rs",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => rust_files(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Words in backquotes that are made like the name of a test: several words joined with `_`.
fn test_names(document: &str) -> BTreeSet<&str> {
    let quoted = document.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| {
        word.matches('_').count() >= 3
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    quoted.filter(is_name).collect()
}

#[test]
fn every_test_and_switch_that_a_document_names_exists() {
    let mut files = Vec::new();
    for folder in ["crates", "e2e"] {
        rust_files(&root().join(folder), &mut files);
    }
    let mut sources = String::new();
    for file in files {
        sources.push_str(&fs::read_to_string(file).unwrap());
    }
    let pages = DIFFERENCES.map(|(page, _)| page);
    for document in ["docs/traceability.md"].into_iter().chain(pages) {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let names = test_names(&text);
        assert!(!names.is_empty(), "{document} names no tests");
        for name in names {
            let known = sources.contains(&format!("fn {name}("))
                || [",", " since ", " until "]
                    .iter()
                    .any(|end| sources.contains(&format!("    {name}{end}")));
            assert!(known, "{document} names {name}, which does not exist");
        }
    }
}

/// The requirements: a prefix, and how many there are from 01 on.
const REQUIREMENTS: [(&str, u32); 15] = [
    ("TM", 41),
    ("CPU", 15),
    ("DEV", 19),
    ("POD", 9),
    ("LIFE", 14),
    ("CFG", 9),
    ("VOL", 34),
    ("KOO-QOS", 15),
    ("KOO-API", 15),
    ("KOO-NODE", 17),
    ("KOO-SCHED", 7),
    ("KOO-NRT", 15),
    ("KOO-AGENT", 17),
    ("EX", 25),
    ("STORY", 8),
];

fn traceability() -> String {
    fs::read_to_string(root().join("docs/traceability.md")).unwrap()
}

/// The ids and the text of every row. `TM-24 to TM-33` are ten ids.
fn rows(page: &str) -> Vec<(Vec<String>, &str)> {
    let rows = page.lines().filter_map(|line| {
        let (ids, text) = line.strip_prefix("| ")?.split_once(" | ")?;
        let is_row = ids.contains('-') && ids != "id";
        is_row.then(|| (ids.split(", ").flat_map(ids_of).collect(), text))
    });
    rows.collect()
}

fn ids_of(range: &str) -> Vec<String> {
    let number = |id: &str| {
        let (prefix, number) = id.rsplit_once('-').unwrap();
        (prefix.to_owned(), number.parse::<u32>().unwrap())
    };
    let (first, last) = range.split_once(" to ").unwrap_or((range, range));
    let ((prefix, first), (other, last)) = (number(first), number(last));
    assert_eq!(prefix, other, "{range} has two prefixes");
    (first..=last)
        .map(|number| format!("{prefix}-{number:02}"))
        .collect()
}

#[test]
fn every_requirement_has_a_row() {
    let page = traceability();
    let listed: BTreeSet<String> = rows(&page).into_iter().flat_map(|row| row.0).collect();
    let required: BTreeSet<String> = REQUIREMENTS
        .iter()
        .flat_map(|(prefix, count)| (1..=*count).map(move |id| format!("{prefix}-{id:02}")))
        .collect();
    let missing: Vec<_> = required.difference(&listed).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    let unknown: Vec<_> = listed.difference(&required).collect();
    assert!(unknown.is_empty(), "rows of no requirement: {unknown:?}");
}

/// Vector files of any program, by family.
fn families() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for program in fs::read_dir(root().join("conformance")).unwrap() {
        let program = program.unwrap().path();
        if !program.is_dir() {
            continue;
        }
        for file in fs::read_dir(program).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            found.extend(name.split_once(".jsonl").map(|name| name.0.to_owned()));
        }
    }
    found
}

#[test]
fn every_vector_family_target_file_and_check_of_the_traceability_page_exists() {
    let page = traceability();
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let families = families();
    let mut files = Vec::new();
    rust_files(&root().join("e2e/src"), &mut files);
    let checks: String = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    for (ids, text) in rows(&page) {
        let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        let proof = !quoted.is_empty() || text.contains("](");
        let open = ["ot shown: ", "ot met: ", "decision: ", "no behaviour"];
        assert!(
            proof || open.iter().any(|word| text.contains(word)),
            "{ids:?} names nothing that shows it"
        );
        for word in &quoted {
            if let Some(target) = word.strip_prefix("make ") {
                let known = makefile.contains(&format!("\n{target}:"));
                assert!(known, "{ids:?}: no target {target}");
            }
            if word.ends_with(".rs") && word.contains('/') {
                assert!(root().join(word).exists(), "{ids:?}: no file {word}");
            }
        }
        // `merge`, `memory` vectors: the quoted words up to the word "vectors".
        for before in text
            .split(" vectors")
            .collect::<Vec<_>>()
            .split_last()
            .unwrap()
            .1
        {
            let Some(family) = before
                .strip_suffix('`')
                .and_then(|rest| rest.rsplit('`').next())
            else {
                continue;
            };
            assert!(families.contains(family), "{ids:?}: no vectors {family}");
        }
        for check in text
            .split("(*")
            .skip(1)
            .filter_map(|rest| rest.split("*)").next())
        {
            for title in check.split("*, *") {
                assert!(checks.contains(title), "{ids:?}: no check {title}");
            }
        }
    }
}

/// The names in a table of defects: lines with a name, perhaps a version, and a comma.
fn switches(source: &str) -> Vec<&str> {
    let lines = source
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        // A switch may name the version that it begins or ends with.
        .filter_map(|line| match line.split_once(' ') {
            Some((name, rest)) => {
                (rest.starts_with("since ") || rest.starts_with("until ")).then_some(name)
            }
            None => Some(line),
        });
    let is_name = |line: &&str| {
        line.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    lines.filter(is_name).collect()
}

#[test]
fn every_switch_is_on_the_page_of_its_program() {
    for (page, table) in DIFFERENCES {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let source = fs::read_to_string(root().join(table)).unwrap();
        let switches = switches(&source);
        assert!(switches.len() >= 3, "{table} has only {switches:?}");
        for switch in switches {
            let row = text
                .lines()
                .find(|line| line.starts_with(&format!("| `{switch}` |")));
            assert!(row.is_some(), "{page} has no row for {switch}");
        }
    }
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut documents: Vec<PathBuf> = ["docs", "docs/adr", "docs/agent", "docs/runbooks"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    documents.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    for document in documents
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
    {
        let text = fs::read_to_string(document).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let target = document.parent().unwrap().join(file);
            assert!(
                target.exists(),
                "{} links to {link}, which does not exist",
                document.display()
            );
        }
    }
}

/// What a document sets with `--set NAME=VALUE`, as `NAME`.
fn values_set(document: &str) -> impl Iterator<Item = &str> {
    let settings = document.split("--set ").skip(1);
    settings.filter_map(|rest| rest.split_once('=').map(|(name, _)| name))
}

#[test]
fn every_value_that_a_document_sets_is_one_of_the_chart() {
    let schema = root().join("deploy/helm/pinfold/values.schema.json");
    let schema: serde_json::Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    let mut pages = crate::pages::pages();
    pages.push(root().join("deploy/helm/pinfold/README.md"));
    let mut count = 0;
    for page in pages {
        for name in values_set(&fs::read_to_string(&page).unwrap()) {
            let mut place = &schema;
            for key in name.split('.') {
                place = &place["properties"][key];
                assert!(!place.is_null(), "{}: {name}: no {key}", page.display());
            }
            count += 1;
        }
    }
    assert!(count > 2, "the documents set {count} values");
}
