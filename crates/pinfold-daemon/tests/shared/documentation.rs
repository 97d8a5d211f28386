//! The documentation of a daemon lists every field of its configuration and every metric.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::metrics::Metric;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(path.join(name)).expect("the page")
}

/// Checks the table of fields in `docs/<name>`.
pub(crate) fn check_fields(name: &str, fields: &[ConfigField]) {
    let page = page(name);
    let mut table = "| field | default | description |\n|---|---|---|\n".to_owned();
    for field in fields {
        let (name, default, about) = (field.name, field.default, field.about);
        let _ = writeln!(table, "| `{name}` | `{default}` | {about} |");
    }
    assert!(
        page.contains(&format!("\n\n{table}\n")),
        "expected:\n{table}"
    );
}

/// Checks the table of metrics in `docs/<name>`.
pub(crate) fn check_metrics(name: &str, metrics: &[&Metric]) {
    let page = page(name);
    let mut table = "| metric | type | labels | description |\n|---|---|---|---|\n".to_owned();
    for metric in metrics {
        let labels = metric.labels.iter().map(|name| format!("`{name}`"));
        let labels: Vec<String> = labels.collect();
        let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
        let _ = writeln!(
            table,
            "| `{name}` | {kind} | {} | {help} |",
            labels.join(", ")
        );
    }
    assert!(page.contains(&format!("\n\n{table}")), "expected:\n{table}");
}
