//! The documents speak of things that exist.

#![expect(clippy::unwrap_used, reason = "a failing test is the point of a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that show where we differ from a program, and the table of its defects.
const DIFFERENCES: [(&str, &str); 4] = [
    (
        "docs/kubelet-differences.md",
        "crates/pinfold-core/src/fidelity/kubelet.rs",
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
    rust_files(&root().join("crates"), &mut files);
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
                || sources.contains(&format!("    {name},"));
            assert!(known, "{document} names {name}, which does not exist");
        }
    }
}

/// The names in a table of defects: lines that hold nothing but a name and a comma.
fn switches(source: &str) -> Vec<&str> {
    let lines = source
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
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
    let mut documents: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    documents.extend(
        fs::read_dir(root().join("docs/adr"))
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
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
