//! The pages and rules of the agent name its fields, metrics, events and alerts.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_agent::kubernetes::EVENT_REASONS;
use pinfold_agent::metrics::ALL;

#[path = "../../pinfold-daemon/tests/shared/documentation.rs"]
mod shared;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_documented_fields_and_metrics_are_those_of_the_program() {
    shared::check_fields("agent/configure.md", pinfold_agent::config::FIELDS);
    shared::check_metrics("agent/operate.md", ALL);
}

#[test]
fn the_documented_events_are_those_of_the_program() {
    let mut table = "| reason | object | when |\n|---|---|---|\n".to_owned();
    for reason in EVENT_REASONS {
        let _ = writeln!(
            table,
            "| `{}` | {} | {} |",
            reason.name, reason.kind, reason.meaning
        );
    }
    let page = read("docs/agent/troubleshoot.md");
    assert!(
        page.contains(&format!("\n\n{table}\n")),
        "expected:\n{table}"
    );
}

/// The values of a key of the alerting rules, in their order.
fn values<'r>(rules: &'r str, key: &str) -> Vec<&'r str> {
    let lines = rules
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    lines
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        .collect()
}

#[test]
fn every_alert_uses_metrics_of_the_agent_and_has_a_test_a_runbook_and_a_row() {
    let rules = read("deploy/prometheus/rules.yaml");
    let tests = read("deploy/prometheus/rules.test.yaml");
    let page = read("docs/agent/operate.md");
    let index = read("docs/runbooks/README.md");
    let alerts = values(&rules, "alert");
    let (expressions, runbooks) = (values(&rules, "expr"), values(&rules, "runbook_url"));
    assert!(alerts.len() >= 8, "{alerts:?}");
    assert_eq!(alerts.len(), expressions.len());
    assert_eq!(alerts.len(), runbooks.len());
    for (alert, (expression, url)) in alerts.iter().zip(expressions.iter().zip(runbooks)) {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named = words.filter(|word| {
            ["pinfold_", "kubelet_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        });
        for name in named {
            let is_known = ALL.iter().any(|metric| {
                let suffix = name.strip_prefix(metric.name);
                suffix.is_some_and(|suffix| ["", "_bucket", "_count", "_sum"].contains(&suffix))
            });
            assert!(is_known, "{alert}: the agent has no metric {name}");
        }
        let (_, file) = url.rsplit_once("/docs/runbooks/").expect("a runbook");
        let runbook = read(&format!("docs/runbooks/{file}"));
        assert!(runbook.starts_with(&format!("# {alert}\n")), "{file}");
        for part in ["## What it means", "## What to look at", "## What to do"] {
            assert!(runbook.contains(part), "{file}: {part}");
        }
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert}");
        assert!(page.contains(&format!("| `{alert}` |")), "{alert}");
        assert!(index.contains(&format!("| `{alert}` | ")), "{alert}");
    }
}

#[test]
fn every_panel_of_the_dashboard_uses_metrics_that_exist() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("deploy/grafana/pinfold.json")).expect("JSON");
    let pages = [read("docs/agent/operate.md"), read("docs/scheduler.md")];
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let mut seen = 0;
    for target in targets {
        let expression = target["expr"].as_str().expect("an expression");
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named = words
            .filter(|word| word.starts_with("pinfold_") || word.starts_with("kubelet_"))
            .map(|name| name.trim_end_matches("_bucket"));
        for name in named {
            // Tests compare these tables with what the programs serve.
            let row = format!("| `{name}` |");
            assert!(
                pages.iter().any(|page| page.contains(&row)),
                "{expression}: no metric {name}"
            );
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}
