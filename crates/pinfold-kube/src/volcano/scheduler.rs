//! The configuration of Volcano's scheduler, as far as its numa-aware plugin reads it.

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::manifest;
use crate::manifest::field::FieldRef;

/// The plugin's name.
const PLUGIN: &str = "numa-aware";
/// The plugin's default weight.
const DEFAULT_WEIGHT: i64 = 1;
/// The key of a ConfigMap with the configuration.
const CONFIG_KEY: &str = "volcano-scheduler.conf";

/// The weight of the numa-aware plugin; `None` if the scheduler does not run it. Reads the configuration itself, or a
/// ConfigMap with it. A weight that is not an integer is ignored with a warning, as in Volcano.
///
/// # Errors
/// With every error in the file.
pub fn scheduler_weight(
    file: &str,
    bytes: &[u8],
) -> Result<WithWarnings<Option<i64>>, Diagnostics> {
    let mut report = DiagnosticReport::new(file);
    let mut weight = None;
    for node in manifest::read_values(file, bytes)? {
        let field = FieldRef::new(&node, String::new());
        let data = field.get("data").and_then(|data| data.get(CONFIG_KEY));
        match data {
            None => weight = weight.or(read(&field, &mut report)),
            Some(data) => {
                let Some(text) = data.text("a scheduler configuration", &mut report) else {
                    continue;
                };
                let inner = format!("{file} ({CONFIG_KEY})");
                for node in manifest::read_values(&inner, text.as_bytes())? {
                    let field = FieldRef::new(&node, String::new());
                    weight = weight.or(read(&field, &mut report));
                }
            }
        }
    }
    report.finish(weight)
}

fn read(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<i64> {
    for tier in field.get_list("tiers", "a list of tiers", report) {
        for plugin in tier.get_list("plugins", "a list of plugins", report) {
            if plugin.get("name").is_some_and(|name| name.is_text(PLUGIN)) {
                return Some(weight(&plugin, report));
            }
        }
    }
    None
}

fn weight(plugin: &FieldRef<'_>, report: &mut DiagnosticReport) -> i64 {
    let arguments = plugin.get_map("arguments", "arguments by name", report);
    let Some(field) = arguments.and_then(|arguments| arguments.get("weight")) else {
        return DEFAULT_WEIGHT;
    };
    let mut own = DiagnosticReport::new("");
    field
        .integer("a whole number", &mut own)
        .unwrap_or_else(|| {
            let problem =
                DiagnosticKind::NoEffect("a weight that is not a whole number".to_owned());
            let hint = format!("write weight: 10; without a number it is {DEFAULT_WEIGHT}");
            field.warn(problem, Some(hint), report);
            DEFAULT_WEIGHT
        })
}
