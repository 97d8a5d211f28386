//! The configuration of Koordinator's scheduler: `NodeNUMAResourceArgs` in a KubeSchedulerConfiguration.

use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::koordinator::plugin::KoordinatorArgs;
use pinfold_core::koordinator::policy_values::{BindPolicy, ExclusivePolicy, NumaPolicy};
use pinfold_core::koordinator::score::ScoreKind;

use crate::finding::{Findings, Problem, Read, Report};
use crate::manifest::Document;
use crate::manifest::place::Place;
use crate::suggest;

/// The plugin's name.
const PLUGIN: &str = "NodeNUMAResource";

/// Reads the plugin's arguments from the first profile that has them; the defaults if none has. What only sound mode
/// knows (`defaultCPUExclusivePolicy`, `defaultNUMATopologyPolicy`) may stand there too: Koordinator passes over it.
///
/// # Errors
/// With everything that makes the configuration unusable.
pub fn scheduler_args(document: &Document) -> Result<Read<KoordinatorArgs>, Findings> {
    let mut report = Report::new(document.file());
    let args = read(document, &mut report);
    report.finish_some(args)
}

fn read(document: &Document, report: &mut Report) -> Option<KoordinatorArgs> {
    let object = document.expect_kind(
        "KubeSchedulerConfiguration",
        &[
            "kubescheduler.config.k8s.io/v1",
            "kubescheduler.config.k8s.io/v1beta3",
            "kubescheduler.config.k8s.io/v1beta2",
        ],
        report,
    )?;
    for profile in object.get_list("profiles", "a list of profiles", report) {
        for plugin in profile.get_list("pluginConfig", "a list of plugins", report) {
            let is_ours = plugin.get("name").is_some_and(|name| name.is_text(PLUGIN));
            let args = plugin.get_map("args", "the plugin's arguments", report);
            if let (true, Some(args)) = (is_ours, args) {
                return Some(plugin_args(&args, report));
            }
        }
    }
    Some(KoordinatorArgs::default())
}

#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "apiVersion", "kind", "defaultCPUBindPolicy", "scoringStrategy", "numaScoringStrategy",
    "defaultCPUExclusivePolicy", "defaultNUMATopologyPolicy",
];

fn plugin_args(place: &Place<'_>, report: &mut Report) -> KoordinatorArgs {
    place.warn_unknown(KNOWN, report);
    let mut args = KoordinatorArgs::default();
    if let Some(policy) = place.get("defaultCPUBindPolicy") {
        let known = &["", "FullPCPUs", "SpreadByPCPUs"];
        let word = one_of(&policy, known, report);
        args.default_bind = word.and_then(BindPolicy::parse);
    }
    if let Some(policy) = place.get("defaultCPUExclusivePolicy") {
        let word = one_of(&policy, ExclusivePolicy::VALUES, report);
        args.default_exclusive = word.and_then(ExclusivePolicy::parse);
    }
    if let Some(policy) = place.get("defaultNUMATopologyPolicy") {
        let word = one_of(&policy, NumaPolicy::VALUES, report);
        args.default_numa_policy = word.and_then(NumaPolicy::parse);
    }
    let what = "a mapping with type and resources";
    if let Some(strategy) = place.get_map("scoringStrategy", what, report) {
        args.scoring = score_kind(&strategy, report);
        args.weights = weights(&strategy, report).unwrap_or(args.weights);
    }
    if let Some(strategy) = place.get_map("numaScoringStrategy", what, report) {
        args.numa_scoring = score_kind(&strategy, report);
        if strategy.get("resources").is_some() {
            let what = "resources of numaScoringStrategy".to_owned();
            let hint = "the weights of scoringStrategy count for NUMA nodes too".to_owned();
            strategy.warn(Problem::NoEffect(what), Some(hint), report);
        }
    }
    args
}

fn one_of<'n>(place: &Place<'n>, known: &[&str], report: &mut Report) -> Option<&'n str> {
    let text = place.text("a policy", report)?;
    if known.contains(&text) {
        return Some(text);
    }
    let hint = Some(suggest::hint(text, known));
    place.unexpected_with("a known policy", hint, report);
    None
}

fn score_kind(strategy: &Place<'_>, report: &mut Report) -> ScoreKind {
    let kind = strategy.get("type");
    let known = &["LeastAllocated", "MostAllocated"];
    match kind.and_then(|kind| one_of(&kind, known, report)) {
        Some("MostAllocated") => ScoreKind::MostAllocated,
        _ => ScoreKind::LeastAllocated,
    }
}

/// Weights by resource, 1 to 100; a weight that is not stated is 1.
fn weights(strategy: &Place<'_>, report: &mut Report) -> Option<Amounts> {
    strategy.get("resources")?;
    let mut weights = Amounts::new();
    for row in strategy.get_list("resources", "a list of resources", report) {
        let Some(name) = row.required_text("name", "a resource such as cpu", report) else {
            continue;
        };
        let what = "a weight from 1 to 100";
        let weight = match row.get("weight") {
            None => 1,
            Some(place) => match place.integer(what, report) {
                Some(0) => 1,
                Some(weight @ 1..=100) => weight,
                Some(_) => {
                    place.unexpected(what, report);
                    continue;
                }
                None => continue,
            },
        };
        weights.set(&name.into(), weight);
    }
    Some(weights)
}
