//! The configuration of Koordinator's scheduler: `NodeNUMAResourceArgs` in a KubeSchedulerConfiguration.

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_cluster::koordinator::policy_values::{BindPolicy, ExclusivePolicy, NumaPolicy};
use pinfold_cluster::koordinator::score::ScoreKind;

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::{scheduler_config, suggest};

/// The plugin's name.
const PLUGIN: &str = "NodeNUMAResource";

/// Reads the plugin's arguments from the first profile that has them; the defaults if none has. Arguments of sound mode
/// (`defaultCPUExclusivePolicy`, `defaultNUMATopologyPolicy`) are allowed too: Koordinator ignores them.
///
/// # Errors
/// With every error in the configuration.
pub fn scheduler_args(document: &Document) -> Result<WithWarnings<KoordinatorArgs>, Diagnostics> {
    let mut report = DiagnosticReport::new(document.file());
    let args = read(document, &mut report);
    report.finish_some(args)
}

/// Reads the plugin's arguments themselves, as JSON. `file` is what messages call them.
///
/// # Errors
/// With every error in the arguments, those that Koordinator's plugin ignores included.
pub fn plugin_args_in_json(file: &str, json: &str) -> Result<KoordinatorArgs, Diagnostics> {
    let document = Document::of_json("", file, json)?;
    let mut report = DiagnosticReport::new(file);
    let args = (document.root().map("the plugin's arguments", &mut report))
        .map(|args| plugin_args(&args, &mut report));
    let read = report.finish_some(args)?;
    match read.warnings.is_empty() {
        true => Ok(read.value),
        false => Err(Diagnostics(read.warnings)),
    }
}

fn read(document: &Document, report: &mut DiagnosticReport) -> Option<KoordinatorArgs> {
    let args = scheduler_config::plugin_args(document, PLUGIN, report)?;
    Some(match args {
        Some(args) => plugin_args(&args, report),
        None => KoordinatorArgs::default(),
    })
}

#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "apiVersion", "kind", "defaultCPUBindPolicy", "scoringStrategy", "numaScoringStrategy",
    "defaultCPUExclusivePolicy", "defaultNUMATopologyPolicy",
];

fn plugin_args(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> KoordinatorArgs {
    field.warn_unknown(KNOWN, report);
    let mut args = KoordinatorArgs::default();
    if let Some(policy) = field.get("defaultCPUBindPolicy") {
        let known = &["", "FullPCPUs", "SpreadByPCPUs"];
        let word = one_of(&policy, known, report);
        args.default_bind = word.and_then(BindPolicy::parse);
    }
    if let Some(policy) = field.get("defaultCPUExclusivePolicy") {
        let word = one_of(&policy, ExclusivePolicy::VALUES, report);
        args.default_exclusive = word.and_then(ExclusivePolicy::parse);
    }
    if let Some(policy) = field.get("defaultNUMATopologyPolicy") {
        let word = one_of(&policy, NumaPolicy::VALUES, report);
        args.default_numa_policy = word.and_then(NumaPolicy::parse);
    }
    let what = "a mapping with type and resources";
    if let Some(strategy) = field.get_map("scoringStrategy", what, report) {
        args.scoring = score_kind(&strategy, report);
        args.weights = weights(&strategy, report).unwrap_or(args.weights);
    }
    if let Some(strategy) = field.get_map("numaScoringStrategy", what, report) {
        args.numa_scoring = score_kind(&strategy, report);
        if strategy.get("resources").is_some() {
            let what = "resources of numaScoringStrategy".to_owned();
            let hint = "the weights of scoringStrategy count for NUMA nodes too".to_owned();
            strategy.warn(DiagnosticKind::NoEffect(what), Some(hint), report);
        }
    }
    args
}

fn one_of<'n>(
    field: &FieldRef<'n>,
    known: &[&str],
    report: &mut DiagnosticReport,
) -> Option<&'n str> {
    let text = field.text("a policy", report)?;
    if known.contains(&text) {
        return Some(text);
    }
    let hint = Some(suggest::hint(text, known));
    field.unexpected_with("a known policy", hint, report);
    None
}

fn score_kind(strategy: &FieldRef<'_>, report: &mut DiagnosticReport) -> ScoreKind {
    let kind = strategy.get("type");
    let known = &["LeastAllocated", "MostAllocated"];
    match kind.and_then(|kind| one_of(&kind, known, report)) {
        Some("MostAllocated") => ScoreKind::MostAllocated,
        _ => ScoreKind::LeastAllocated,
    }
}

/// Weights by resource, 1 to 100; the default weight is 1.
fn weights(strategy: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<Amounts> {
    strategy.get("resources")?;
    let mut weights = Amounts::new();
    for row in strategy.get_list("resources", "a list of resources", report) {
        let Some(name) = row.required_text("name", "a resource such as cpu", report) else {
            continue;
        };
        let what = "a weight from 1 to 100";
        let weight = match row.get("weight") {
            None => 1,
            Some(field) => match field.integer(what, report) {
                Some(0) => 1,
                Some(weight @ 1..=100) => weight,
                Some(_) => {
                    field.unexpected(what, report);
                    continue;
                }
                None => continue,
            },
        };
        weights.set(&name.into(), weight);
    }
    Some(weights)
}
