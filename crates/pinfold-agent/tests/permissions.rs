//! The roles of `deploy/` are those of `docs/security.md`, and every request in the sources has a row there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of roles, beside each role that the page names.
const ROLES: [(&str, &str); 5] = [
    ("pinfold-agent", "deploy/agent/rbac.yaml"),
    (
        "pinfold-agent-node-condition",
        "deploy/agent/rbac-node-condition.yaml",
    ),
    (
        "pinfold-agent-startup-taint",
        "deploy/agent/rbac-startup-taint.yaml",
    ),
    ("pinfold-scheduler", "deploy/scheduler/rbac.yaml"),
    (
        "pinfold-reader",
        "deploy/helm/pinfold/templates/reader.yaml",
    ),
];
/// The crates whose requests count.
const CRATES: [&str; 3] = ["pinfold-agent", "pinfold-scheduler", "pinfold-apiserver"];
/// The beginnings of requests, and the verbs that they need.
const REQUESTS: [(&str, &[&str]); 8] = [
    ("WatchTarget {", &["list", "watch"]),
    ("ListedKind {", &["list"]),
    ("api.get(", &["get"]),
    ("Request::get(", &["get"]),
    ("api.post(", &["create"]),
    ("merge_patch(", &["patch"]),
    ("api.put(", &["update"]),
    ("api.get_bytes(", &["list", "get"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// The part of a source that is no test.
fn program_text(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("readable");
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The texts between backquotes in a cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rows of a section of the page: the cells of each.
fn rows(section: &str) -> Vec<Vec<String>> {
    let page = read("docs/security.md");
    let start = page.find(&format!("\n## {section}\n")).expect(section);
    let text = &page[start + 4..];
    let text = &text[..text.find("\n## ").unwrap_or(text.len())];
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells = line.trim_matches('|').split(" | ");
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// `resource verb` of every rule of the ClusterRoles in a file. `- apiGroups`, `resources` and `verbs` have a line each.
fn granted(file: &str, role: &str) -> BTreeSet<String> {
    let text = read(file);
    let mut found = BTreeSet::new();
    for object in text.split("\n---\n") {
        let is_role =
            object.contains("kind: ClusterRole\n") && object.contains(&format!("name: {role}\n"));
        if !is_role {
            continue;
        }
        let mut resources: Vec<&str> = Vec::new();
        for line in object.lines() {
            let list = |key: &str| {
                let rest = line.trim().strip_prefix(key)?.strip_suffix(']')?;
                Some(rest.split(',').map(str::trim).collect::<Vec<_>>())
            };
            if let Some(list) = list("resources: [") {
                resources = list;
            }
            for verb in list("verbs: [").unwrap_or_default() {
                found.extend(
                    resources
                        .iter()
                        .map(|resource| format!("{resource} {verb}")),
                );
            }
        }
    }
    found
}

#[test]
fn every_granted_verb_has_a_row_and_every_row_is_granted() {
    let rows = rows("Verbs");
    for (role, file) in ROLES {
        let mut needed = BTreeSet::new();
        for row in rows.iter().filter(|row| quoted(&row[0]) == [role]) {
            for resource in quoted(&row[1]) {
                let verbs = quoted(&row[2]);
                needed.extend(verbs.iter().map(|verb| format!("{resource} {verb}")));
            }
        }
        assert!(!needed.is_empty(), "{role} has no row");
        assert_eq!(granted(file, role), needed, "{file}");
    }
    assert!(
        rows.iter()
            .all(|row| ROLES.iter().any(|(role, _)| quoted(&row[0]) == [*role]))
    );
}

#[test]
fn every_row_names_code_that_sends_a_request_of_its_verb() {
    for row in rows("Verbs") {
        let [file, code] = quoted(&row[3])[..] else {
            panic!("expected a file and code: {row:?}");
        };
        let text = program_text(&root().join(file));
        assert!(text.contains(code), "{file} has no {code}");
        for verb in quoted(&row[2]) {
            let sends = REQUESTS
                .iter()
                .any(|(request, verbs)| code.contains(request) && verbs.contains(&verb));
            assert!(sends, "{code} is no {verb}");
        }
    }
}

#[test]
fn every_request_in_the_sources_has_a_row() {
    let known = rows("Verbs").into_iter().map(|row| row[3].clone());
    let known = known.chain(
        rows("Requests without a role of ours")
            .into_iter()
            .map(|row| row[0].clone()),
    );
    let known: Vec<String> = known.collect();
    let known: Vec<Vec<&str>> = known.iter().map(|cell| quoted(cell)).collect();
    let mut seen = 0;
    for name in CRATES {
        for path in sources(&root().join("crates").join(name).join("src")) {
            let text = program_text(&path);
            for line in text.lines() {
                let is_request = REQUESTS.iter().any(|(request, _)| line.contains(request));
                let is_definition = ["fn ", "struct ", "impl ", "//"].iter().any(|word| {
                    let line = line.trim_start();
                    line.starts_with(word)
                        || line.starts_with(&format!("pub {word}"))
                        || line.starts_with(&format!("pub(super) {word}"))
                        || line.starts_with(&format!("pub async {word}"))
                });
                if !is_request || is_definition {
                    continue;
                }
                let is_known = known
                    .iter()
                    .any(|cell| path.ends_with(cell[0]) && line.contains(cell[1]));
                assert!(
                    is_known,
                    "{}: {} has no row in docs/security.md",
                    path.display(),
                    line.trim()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

/// The sources below a folder, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn both_files_of_roles_have_the_same_namespace() {
    let namespace = |file: &str| {
        let text = read(file);
        let objects = text.split("---\n").map(str::to_owned);
        let mut found = objects.filter(|object| object.contains("kind: Namespace\n"));
        let lines = found.next().expect("a namespace");
        let lines: Vec<String> = lines
            .lines()
            .filter(|line| !line.trim_start().starts_with('#') && !line.is_empty())
            .map(str::to_owned)
            .collect();
        lines
    };
    assert_eq!(
        namespace("deploy/scheduler/rbac.yaml"),
        namespace("deploy/agent/rbac.yaml"),
        "applying one after the other must not remove a label"
    );
}

#[test]
fn files_that_the_chart_shares_are_links_to_files_that_exist() {
    let folder = root().join("deploy/helm/pinfold/files");
    let mut links = 0;
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("readable").path();
        assert!(path.is_symlink(), "{} is no link", path.display());
        assert!(path.is_file(), "{} leads nowhere", path.display());
        links += 1;
    }
    assert!(links > 4, "{links}");
}
