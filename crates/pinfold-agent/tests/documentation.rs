//! Checks that `docs/node-agent.md` lists every field of the configuration and every metric.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use pinfold_agent::config::FIELDS;
use pinfold_agent::metrics::ALL;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/node-agent.md");
    fs::read_to_string(path).expect("the page")
}

#[test]
fn the_documented_configuration_fields_are_those_of_the_program() {
    let mut table = "| field | default | description |\n|---|---|---|\n".to_owned();
    for field in FIELDS {
        let _ = writeln!(
            table,
            "| `{}` | `{}` | {} |",
            field.name, field.default, field.about
        );
    }
    assert!(
        page().contains(&format!("\n\n{table}\n")),
        "it should be:\n{table}"
    );
}

#[test]
fn the_documented_metrics_are_those_of_the_program() {
    let mut table = "| metric | type | labels | description |\n|---|---|---|---|\n".to_owned();
    for metric in ALL {
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            labels.join(", "),
            metric.help
        );
    }
    assert!(
        page().contains(&format!("\n\n{table}")),
        "it should be:\n{table}"
    );
}
