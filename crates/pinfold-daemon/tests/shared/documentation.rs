//! The documentation page of a daemon lists every field of its configuration and every metric.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::metrics::Metric;

/// Checks the tables in `docs/<name>`.
pub(crate) fn check(name: &str, fields: &[ConfigField], metrics: &[&Metric]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(path.join(name)).expect("the page");
    let mut table = "| field | default | description |\n|---|---|---|\n".to_owned();
    for field in fields {
        let (name, default, about) = (field.name, field.default, field.about);
        let _ = writeln!(table, "| `{name}` | `{default}` | {about} |");
    }
    assert!(
        page.contains(&format!("\n\n{table}\n")),
        "expected:\n{table}"
    );
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
