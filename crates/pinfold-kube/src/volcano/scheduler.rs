//! The configuration of Volcano's scheduler, as far as its numa-aware plugin reads it.

use crate::finding::{Findings, Problem, Read, Report};
use crate::manifest;
use crate::manifest::place::Place;

/// The plugin's name.
const PLUGIN: &str = "numa-aware";
/// What it counts for if nobody says.
const DEFAULT_WEIGHT: i64 = 1;
/// Where a ConfigMap keeps the configuration.
const CONFIG_KEY: &str = "volcano-scheduler.conf";

/// The weight of the numa-aware plugin; `None` if the scheduler does not run it. Reads the configuration itself, or a
/// ConfigMap that holds it. A weight that is not a whole number is ignored with a warning, as Volcano does.
///
/// # Errors
/// With everything that makes the file unusable.
pub fn scheduler_weight(file: &str, bytes: &[u8]) -> Result<Read<Option<i64>>, Findings> {
    let mut report = Report::new(file);
    let mut weight = None;
    for node in manifest::read_values(file, bytes)? {
        let place = Place::new(&node, String::new());
        let data = place.get("data").and_then(|data| data.get(CONFIG_KEY));
        match data {
            None => weight = weight.or(read(&place, &mut report)),
            Some(data) => {
                let Some(text) = data.text("a scheduler configuration", &mut report) else {
                    continue;
                };
                let inner = format!("{file} ({CONFIG_KEY})");
                for node in manifest::read_values(&inner, text.as_bytes())? {
                    let place = Place::new(&node, String::new());
                    weight = weight.or(read(&place, &mut report));
                }
            }
        }
    }
    report.finish(weight)
}

fn read(place: &Place<'_>, report: &mut Report) -> Option<i64> {
    for tier in place.get_list("tiers", "a list of tiers", report) {
        for plugin in tier.get_list("plugins", "a list of plugins", report) {
            if plugin.get("name").is_some_and(|name| name.is_text(PLUGIN)) {
                return Some(weight(&plugin, report));
            }
        }
    }
    None
}

fn weight(plugin: &Place<'_>, report: &mut Report) -> i64 {
    let arguments = plugin.get_map("arguments", "arguments by name", report);
    let Some(place) = arguments.and_then(|arguments| arguments.get("weight")) else {
        return DEFAULT_WEIGHT;
    };
    let mut own = Report::new("");
    place
        .integer("a whole number", &mut own)
        .unwrap_or_else(|| {
            let problem = Problem::NoEffect("a weight that is not a whole number".to_owned());
            let hint = format!("write weight: 10; without a number it is {DEFAULT_WEIGHT}");
            place.warn(problem, Some(hint), report);
            DEFAULT_WEIGHT
        })
}
