//! The documents speak of things that exist.

#![expect(clippy::unwrap_used, reason = "a failing test is the point of a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    for document in ["docs/traceability.md", "docs/kubelet-differences.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let names = test_names(&text);
        assert!(
            names.len() > 20,
            "{document} names only {} tests",
            names.len()
        );
        for name in names {
            let known = sources.contains(&format!("fn {name}("))
                || sources.contains(&format!("    {name},"));
            assert!(known, "{document} names {name}, which does not exist");
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
