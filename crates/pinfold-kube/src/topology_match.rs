//! `NodeResourceTopologyMatchArgs`: the configuration of scheduler-plugins' NodeResourceTopologyMatch.

use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_cluster::node_topology::score::{ResourceWeights, ScoringStrategy};

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::scheduler_config::plugin_args;
use crate::suggest;

const PLUGIN: &str = "NodeResourceTopologyMatch";

/// Fields of the arguments, those without an effect on a decision among them.
const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "scoringStrategy",
    "cacheResyncPeriodSeconds",
    "discardReservedNodes",
    "cache",
    "preemptionMode",
];
const STRATEGIES: &[&str] = &[
    "LeastAllocated",
    "MostAllocated",
    "BalancedAllocation",
    "LeastNUMANodes",
];

/// Reads the plugin's arguments from the first profile of a KubeSchedulerConfiguration that has them; the plugin's
/// defaults if none has.
///
/// # Errors
/// With everything that makes the configuration unusable.
pub fn scheduler_args(document: &Document) -> Result<WithWarnings<TopologyMatchArgs>, Diagnostics> {
    let mut report = DiagnosticReport::new(document.file());
    let args = plugin_args(document, PLUGIN, &mut report);
    let args = args.map(|args| match args {
        Some(args) => read(&args, &mut report),
        None => TopologyMatchArgs::default(),
    });
    report.finish_some(args)
}

fn read(place: &FieldRef<'_>, report: &mut DiagnosticReport) -> TopologyMatchArgs {
    place.warn_unknown(FIELDS, report);
    let mut args = TopologyMatchArgs::default();
    if let Some(period) = place.get("cacheResyncPeriodSeconds") {
        args.over_reserve = period.integer("a number of seconds", report) > Some(0);
    }
    let what = "a mapping with type and resources";
    if let Some(scoring) = place.get_map("scoringStrategy", what, report) {
        args.strategy = strategy(&scoring, report).unwrap_or_default();
        if scoring.get("resources").is_some() {
            args.weights = weights(&scoring, report);
        }
    }
    args
}

/// The strategy. Unlike the other fields it has no default once `scoringStrategy` is there.
fn strategy(scoring: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<ScoringStrategy> {
    let Some(place) = scoring.get("type") else {
        let problem = "Invalid value: \"\": invalid ScoringStrategyType".to_owned();
        let hint = format!("add type: {}", STRATEGIES.join(" or type: "));
        report.error(
            scoring.at(),
            "scoringStrategy.type",
            DiagnosticKind::Rejected(problem),
            Some(hint),
        );
        return None;
    };
    let text = place.text("a scoring strategy", report)?;
    let strategy = ScoringStrategy::from_text(text);
    if strategy.is_none() {
        let hint = Some(suggest::hint(text, STRATEGIES));
        place.unexpected_with("a known scoring strategy", hint, report);
    }
    strategy
}

/// ResourceWeights by resource; the plugin counts a weight below 1, or none, as 1.
fn weights(scoring: &FieldRef<'_>, report: &mut DiagnosticReport) -> ResourceWeights {
    let mut weights = ResourceWeights::new();
    for row in scoring.get_list("resources", "a list of resources", report) {
        let name = row.required_text("name", "a resource such as cpu", report);
        let weight = match row.get("weight") {
            Some(place) => place.integer("a whole number", report),
            None => Some(1),
        };
        if let (Some(name), Some(weight)) = (name, weight) {
            weights.insert(name.into(), weight.max(1));
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;

    fn args(plugin_config: &str) -> Result<TopologyMatchArgs, String> {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             profiles:\n- pluginConfig:\n{plugin_config}"
        );
        let documents = manifest::read("scheduler.yaml", text.as_bytes()).expect("YAML");
        let read = scheduler_args(&documents[0]);
        read.map(|read| read.value)
            .map_err(|findings| findings.to_string())
    }

    #[test]
    fn the_strategy_weights_and_cache_come_from_the_arguments() {
        let found = args(
            "  - name: NodeResourceTopologyMatch\n    args:\n      cacheResyncPeriodSeconds: 5\n      \
             scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}, {name: memory}]}\n",
        );
        let expected = TopologyMatchArgs {
            strategy: ScoringStrategy::MostAllocated,
            weights: [("cpu".into(), 3), ("memory".into(), 1)].into(),
            over_reserve: true,
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn a_configuration_without_the_plugin_means_its_defaults() {
        let found = args("  - name: NodeResourcesFit\n    args: {}\n");
        assert_eq!(found, Ok(TopologyMatchArgs::default()));
    }

    #[test]
    fn a_scoring_strategy_without_a_known_type_is_rejected() {
        for strategy in ["{}", "{type: Fewest}"] {
            let found = args(&format!(
                "  - name: NodeResourceTopologyMatch\n    args: {{scoringStrategy: {strategy}}}\n"
            ));
            let error = found.expect_err(strategy);
            assert!(error.contains("scoringStrategy.type"), "{error}");
        }
    }
}
