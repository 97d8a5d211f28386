use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;

use super::catalogue as all;
use pinfold_daemon::metrics::MAX_SERIES;

use super::*;

/// One line of the text format: a name, labels and a value.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Parses the text format 0.0.4 strictly.
fn parse(text: &str) -> Vec<Sample> {
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line ends"
    );
    let (mut samples, mut seen) = (Vec::new(), BTreeSet::new());
    let mut family = (String::new(), String::new());
    let mut help = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').expect("a help text");
            assert!(seen.insert(name.to_owned()), "{name} comes twice");
            assert!(!text.is_empty());
            help = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, help, "HELP and TYPE belong together");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            family = (name.to_owned(), kind.to_owned());
        } else {
            let sample = sample(line);
            let own = match family.1.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|end| sample.name == format!("{}{end}", family.0)),
                _ => sample.name == family.0,
            };
            assert!(own, "{line} below {}", family.0);
            if family.1 == "counter" {
                assert!(sample.value >= 0.0, "{line}");
            }
            assert!(
                !samples
                    .iter()
                    .any(|one: &Sample| one.name == sample.name && one.labels == sample.labels),
                "{line} comes twice"
            );
            samples.push(sample);
        }
    }
    samples
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a name and a value");
    let (name, rest) = line.split_at(end);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_name),
        "{line}"
    );
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (BTreeMap::new(), rest),
    };
    let value = value.strip_prefix(' ').expect("one blank");
    assert!(!value.contains(' '), "{line}");
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().expect("a number"),
    }
}

fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect("a label");
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{name}"
        );
        let (mut value, mut end) = (String::new(), None);
        let mut chars = after.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = Some(at);
                    break;
                }
                '\\' => value.push(match chars.next().expect("an escape").1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    other => panic!("escape {other:?}"),
                }),
                c => value.push(c),
            }
        }
        let end = end.expect("the value ends");
        assert!(
            labels.insert(name.to_owned(), value).is_none(),
            "{name} twice"
        );
        rest = &after[end + 1..];
        match rest.split_at(1) {
            (",", after) => rest = after,
            ("}", after) => return (labels, after),
            other => panic!("{other:?}"),
        }
    }
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels: BTreeMap<String, String> = labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let found = samples
        .iter()
        .find(|one| one.name == name && one.labels == labels);
    found.map(|one| one.value)
}

#[test]
fn metric_names_are_unique_and_have_a_known_prefix() {
    let mut names = BTreeSet::new();
    for metric in ALL {
        assert!(names.insert(metric.name), "{}", metric.name);
        assert!(metric.name.starts_with("kubelet_") || metric.name.starts_with("pinfold_"));
        assert!(metric.help.ends_with('.'), "{}", metric.help);
        if let MetricKind::Histogram(bounds) = metric.kind {
            assert!(bounds.is_sorted(), "{}", metric.name);
        }
    }
}

#[test]
fn all_metrics_are_parsed_by_a_strict_parser() {
    let metrics = registry();
    let nasty = "a\"b\\c\nd{},=é";
    for metric in ALL {
        let labels = vec![nasty; metric.labels.len()];
        match metric.kind {
            MetricKind::Counter => metrics.add(metric, &labels, 3),
            MetricKind::Gauge => metrics.set(metric, &labels, -2.5),
            MetricKind::Histogram(_) => metrics.observe(metric, &labels, 0.3),
        }
    }
    let samples = parse(&metrics.expose());
    for metric in ALL {
        let labels: Vec<(&str, &str)> = metric.labels.iter().map(|name| (*name, nasty)).collect();
        let (name, expected) = match metric.kind {
            MetricKind::Counter => (metric.name.to_owned(), 3.0),
            MetricKind::Gauge => (metric.name.to_owned(), -2.5),
            MetricKind::Histogram(_) => (format!("{}_count", metric.name), 1.0),
        };
        assert_eq!(value(&samples, &name, &labels), Some(expected), "{name}");
    }
}

#[test]
fn a_histogram_counts_each_value_in_all_buckets_with_a_larger_bound() {
    let metrics = registry();
    for seen in [0.005, 0.02, 0.02, 7.0, 100.0] {
        metrics.observe(&all::PLUGIN_ALLOCATION, &["gpu"], seen);
    }
    let samples = parse(&metrics.expose());
    let name = all::PLUGIN_ALLOCATION.name;
    let at_most = |bound| {
        let labels = [("resource_name", "gpu"), ("le", bound)];
        value(&samples, &format!("{name}_bucket"), &labels)
    };
    assert_eq!(at_most("0.005"), Some(1.0));
    assert_eq!(at_most("0.01"), Some(1.0));
    assert_eq!(at_most("0.025"), Some(3.0));
    assert_eq!(at_most("10"), Some(4.0));
    assert_eq!(at_most("+Inf"), Some(5.0));
    let labels = [("resource_name", "gpu")];
    assert_eq!(
        value(&samples, &format!("{name}_count"), &labels),
        Some(5.0)
    );
}

#[test]
fn metrics_without_labels_are_exposed_before_their_first_value() {
    let samples = parse(&registry().expose());
    for metric in ALL.iter().filter(|metric| metric.labels.is_empty()) {
        assert!(
            samples.iter().any(|one| one.name.starts_with(metric.name)),
            "{}",
            metric.name
        );
    }
}

#[test]
fn the_number_of_series_is_limited() {
    let metrics = registry();
    for i in 0..MAX_SERIES + 100 {
        metrics.count(&all::REJECTIONS, &[&i.to_string()]);
    }
    assert!(metrics.expose().lines().count() < MAX_SERIES + 200);
}

#[test]
fn gauges_are_measured_from_the_ledger() {
    let hardware = pinfold_hardware::open("2 sockets, 4 cores, smt2").expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("all of it");
    let settings = Settings {
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("2".parse().expect("a quantity")),
        ..Settings::default()
    };
    let rules = Rules::new(machine.into(), settings).expect("rules");
    let mut ledger = Ledger::new(Arc::new(rules));
    let pod = serde_json::json!({"uid": "a", "containers": [{
        "name": "main",
        "requests": {"cpu": "4", "memory": "1Gi"},
        "limits": {"cpu": "4", "memory": "1Gi"},
    }]});
    let pod = serde_json::from_value(pod).expect("a pod");
    let admission = ledger
        .admit(&Arc::new(pod), &mut NoPreference)
        .expect("a pod");
    assert!(admission.decision.is_admitted());
    let metrics = registry();
    measure_ledger(&metrics, &ledger);
    let samples = parse(&metrics.expose());
    let is = |metric: &Metric, labels: &[(&str, &str)]| value(&samples, metric.name, labels);
    assert_eq!(is(&all::PODS, &[]), Some(1.0));
    assert_eq!(is(&all::EXCLUSIVE_CPUS, &[]), Some(4.0));
    assert_eq!(is(&all::SHARED_POOL, &[]), Some(12_000.0));
    assert_eq!(is(&all::FREE_CPUS, &[("numa_node", "0")]), Some(2.0));
    assert_eq!(is(&all::FREE_CPUS, &[("numa_node", "1")]), Some(8.0));
    assert_eq!(is(&all::FRAGMENTATION, &[("resource", "cpu")]), Some(0.0));
}
