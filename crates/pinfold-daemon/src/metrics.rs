//! [`Metrics`]: the counters, gauges and histograms of a daemon, in Prometheus' text format.
//!
//! Hand-written: three kinds of metrics and one text format are less code than the integration of a library. The table of
//! all metrics of a daemon ([`catalogue!`](crate::catalogue)) is also their documentation.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Declares one constant per metric, and `ALL`: every metric in the order of exposition.
#[macro_export]
macro_rules! catalogue {
    ($($(#[$doc:meta])* $id:ident: $kind:expr, $name:literal $labels:tt, $help:literal;)*) => {
        $($(#[$doc])* pub const $id: $crate::metrics::Metric = $crate::metrics::Metric {
            name: $name,
            help: $help,
            labels: &$labels,
            kind: $kind,
        };)*

        /// Every metric, in the order of exposition.
        pub const ALL: &[&$crate::metrics::Metric] = &[$(&$id),*];
    };
}

/// The description of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The metric's name.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The label names.
    pub labels: &'static [&'static str],
    /// The type of the metric.
    pub kind: MetricKind,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A value that only increases.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Counts of observations by bucket; the upper bounds ascend.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// The name in the line `# TYPE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        }
    }
}

/// The values of all metrics of a daemon, shared by its threads.
#[derive(Debug)]
pub struct Metrics {
    all: &'static [&'static Metric],
    series: Mutex<BTreeMap<SeriesKey, SeriesValue>>,
}

/// A metric's name and its label values.
type SeriesKey = (&'static str, Vec<String>);

#[derive(Clone, Debug)]
enum SeriesValue {
    Number(f64),
    Histogram { buckets: Vec<u64>, sum: f64 },
}

/// The most series of a daemon: label values that come from the cluster must not exhaust its memory.
pub const MAX_SERIES: usize = 10_000;

impl Metrics {
    /// All metrics of the table `all`. Metrics without labels start with one series at 0.
    #[must_use]
    pub fn new(all: &'static [&'static Metric]) -> Self {
        let metrics = Self {
            all,
            series: Mutex::default(),
        };
        for metric in all.iter().filter(|metric| metric.labels.is_empty()) {
            metrics.update(metric, &[], |_| {});
        }
        metrics
    }

    /// Increments a counter by one.
    pub fn count(&self, metric: &Metric, labels: &[&str]) {
        self.add(metric, labels, 1);
    }

    /// Increments a counter.
    pub fn add(&self, metric: &Metric, labels: &[&str], more: u64) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "Prometheus values are floating point numbers"
        )]
        let more = more as f64;
        self.update(metric, labels, |value| {
            if let SeriesValue::Number(number) = value {
                *number += more;
            }
        });
    }

    /// Sets a gauge.
    pub fn set(&self, metric: &Metric, labels: &[&str], new: f64) {
        self.update(metric, labels, |value| {
            if let SeriesValue::Number(number) = value {
                *number = new;
            }
        });
    }

    /// Adds an observation to a histogram.
    pub fn observe(&self, metric: &Metric, labels: &[&str], observation: f64) {
        let MetricKind::Histogram(bounds) = metric.kind else {
            return;
        };
        self.update(metric, labels, |value| {
            if let SeriesValue::Histogram { buckets, sum } = value {
                let index = bounds.iter().position(|bound| observation <= *bound);
                if let Some(bucket) = buckets.get_mut(index.unwrap_or(bounds.len())) {
                    *bucket = bucket.saturating_add(1);
                }
                *sum += observation;
            }
        });
    }

    /// Removes all series of a metric, so that label values that no longer exist disappear.
    pub fn clear(&self, metric: &Metric) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|(name, _), _| *name != metric.name);
    }

    fn update(&self, metric: &Metric, labels: &[&str], change: impl FnOnce(&mut SeriesValue)) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let key = (metric.name, labels);
        if series.len() >= MAX_SERIES && !series.contains_key(&key) {
            return;
        }
        let value = series.entry(key).or_insert_with(|| match metric.kind {
            MetricKind::Counter | MetricKind::Gauge => SeriesValue::Number(0.0),
            MetricKind::Histogram(bounds) => SeriesValue::Histogram {
                buckets: vec![0; bounds.len() + 1],
                sum: 0.0,
            },
        });
        change(value);
    }

    /// All series in Prometheus' text format 0.0.4, in the order of the table.
    #[must_use]
    pub fn expose(&self) -> String {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        for metric in self.all {
            let first = (metric.name, Vec::new());
            let own = series.range(first..);
            let mut own = own
                .take_while(|((name, _), _)| *name == metric.name)
                .peekable();
            if own.peek().is_none() {
                continue;
            }
            let (name, help) = (metric.name, escaped(metric.help, false));
            let _ = writeln!(out, "# HELP {name} {help}");
            let _ = writeln!(out, "# TYPE {name} {}", metric.kind.name());
            for ((_, labels), value) in own {
                expose(&mut out, metric, labels, value);
            }
        }
        out
    }
}

fn expose(out: &mut String, metric: &Metric, labels: &[String], value: &SeriesValue) {
    let name = metric.name;
    let pairs = metric
        .labels
        .iter()
        .copied()
        .zip(labels.iter().map(String::as_str));
    match (value, metric.kind) {
        (SeriesValue::Number(value), _) => {
            let _ = writeln!(out, "{name}{} {value}", braces(pairs));
        }
        (SeriesValue::Histogram { buckets, sum }, MetricKind::Histogram(bounds)) => {
            let mut total = 0_u64;
            let bounds = bounds.iter().map(f64::to_string);
            let bounds = bounds.chain(std::iter::once("+Inf".to_owned()));
            for (bucket, bound) in buckets.iter().zip(bounds) {
                total = total.saturating_add(*bucket);
                let pairs = pairs.clone().chain(std::iter::once(("le", bound.as_str())));
                let _ = writeln!(out, "{name}_bucket{} {total}", braces(pairs));
            }
            let labels = braces(pairs);
            let _ = writeln!(
                out,
                "{name}_sum{labels} {sum}\n{name}_count{labels} {total}"
            );
        }
        (SeriesValue::Histogram { .. }, _) => {}
    }
}

/// The label pairs in braces; empty if there are none.
fn braces<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)));
    let pairs: Vec<String> = pairs.collect();
    match pairs.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", pairs.join(",")),
    }
}

/// Escapes a help text, or a label value if `quotes` is set.
fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}
