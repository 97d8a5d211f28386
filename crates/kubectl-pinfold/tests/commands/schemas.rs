//! The JSON of every command has the schema in `docs/schema`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{root, run, words};
use crate::schema;

#[test]
fn every_snapshot_as_json_has_the_schema_of_its_command() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/commands.txt");
    let text = fs::read_to_string(golden).expect("snapshots");
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("$ kubectl pinfold "));
    let page = fs::read_to_string(root().join("docs/cluster.md")).expect("the page");
    let mut seen = BTreeSet::new();
    for line in lines {
        let mut words = words(line);
        words.retain(|word| !["-o", "json", "yaml"].contains(&word.as_str()));
        words.extend(["-o".to_owned(), "json".to_owned()]);
        let command = words[0].clone();
        let printed = run(&root().join("crates/pinfold/tests/inputs"), &words);
        if printed.code > 1 {
            continue;
        }
        let name = format!("schema/kubectl-pinfold-{command}.json");
        assert!(page.contains(&name), "the page has no link to {name}");
        let schema = fs::read_to_string(root().join("docs").join(&name)).expect(&name);
        let schema: Value = serde_json::from_str(&schema).expect(&name);
        let json: Value = serde_json::from_str(&printed.stdout).expect(line);
        assert_eq!(schema::error(&schema, &json), None, "{line}");
        seen.insert(command);
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}
