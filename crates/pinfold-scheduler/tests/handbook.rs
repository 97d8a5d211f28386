//! docs/scheduler.md lists every field of the configuration and every metric.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use pinfold_scheduler::config::FIELDS;
use pinfold_scheduler::metrics::ALL;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scheduler.md");
    fs::read_to_string(path).expect("the page")
}

#[test]
fn the_page_lists_every_field_of_the_configuration() {
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
        "expected:\n{table}"
    );
}

#[test]
fn the_page_lists_every_metric() {
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
        "expected:\n{table}"
    );
}
