//! [`Metrics`]: what a daemon counts and measures, as Prometheus reads it.
//!
//! Written by hand: three kinds of metrics and one text format are less than the glue to a library would be, and the
//! daemon's table of all its metrics ([`catalogue!`](crate::catalogue)) is the documentation.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Makes a constant of every metric, and `ALL` of all of them in the order in which they are shown.
#[macro_export]
macro_rules! catalogue {
    ($($(#[$doc:meta])* $id:ident: $kind:expr, $name:literal $labels:tt, $help:literal;)*) => {
        $($(#[$doc])* pub const $id: $crate::metrics::Metric = $crate::metrics::Metric {
            name: $name,
            help: $help,
            labels: &$labels,
            kind: $kind,
        };)*

        /// Every metric, in the order in which they are shown.
        pub const ALL: &[&$crate::metrics::Metric] = &[$(&$id),*];
    };
}

/// One metric: its name and what it says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it counts or measures.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// How it behaves.
    pub kind: Kind,
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts how many values were at most so large; the bounds ascend.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The word in the exposition.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}

/// Everything that was counted and measured. Shared by all who count.
#[derive(Debug)]
pub struct Metrics {
    all: &'static [&'static Metric],
    series: Mutex<BTreeMap<Key, Value>>,
}

/// A metric's name and the values of its labels.
type Key = (&'static str, Vec<String>);

#[derive(Clone, Debug)]
enum Value {
    Number(f64),
    Histogram { buckets: Vec<u64>, sum: f64 },
}

/// So many series altogether: a name that others choose must not fill the memory.
pub const MOST_SERIES: usize = 10_000;

impl Metrics {
    /// Nothing counted yet of what is in the table. Metrics without labels are there from the beginning, at 0.
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

    /// Counts one more.
    pub fn count(&self, metric: &Metric, labels: &[&str]) {
        self.add(metric, labels, 1);
    }

    /// Counts so many more.
    pub fn add(&self, metric: &Metric, labels: &[&str], more: u64) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "what Prometheus does with every number"
        )]
        let more = more as f64;
        self.update(metric, labels, |value| {
            if let Value::Number(number) = value {
                *number += more;
            }
        });
    }

    /// Measures a value that goes up and down.
    pub fn set(&self, metric: &Metric, labels: &[&str], new: f64) {
        self.update(metric, labels, |value| {
            if let Value::Number(number) = value {
                *number = new;
            }
        });
    }

    /// Puts a value into its histogram.
    pub fn observe(&self, metric: &Metric, labels: &[&str], seen: f64) {
        let Kind::Histogram(bounds) = metric.kind else {
            return;
        };
        self.update(metric, labels, |value| {
            if let Value::Histogram { buckets, sum } = value {
                let place = bounds.iter().position(|bound| seen <= *bound);
                if let Some(bucket) = buckets.get_mut(place.unwrap_or(bounds.len())) {
                    *bucket = bucket.saturating_add(1);
                }
                *sum += seen;
            }
        });
    }

    /// Forgets all series of a metric, before they are measured anew.
    pub fn clear(&self, metric: &Metric) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|(name, _), _| *name != metric.name);
    }

    fn update(&self, metric: &Metric, labels: &[&str], change: impl FnOnce(&mut Value)) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let key = (metric.name, labels);
        if series.len() >= MOST_SERIES && !series.contains_key(&key) {
            return;
        }
        let value = series.entry(key).or_insert_with(|| match metric.kind {
            Kind::Counter | Kind::Gauge => Value::Number(0.0),
            Kind::Histogram(bounds) => Value::Histogram {
                buckets: vec![0; bounds.len() + 1],
                sum: 0.0,
            },
        });
        change(value);
    }

    /// Everything as Prometheus reads it (text format 0.0.4), in the order of the table.
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

fn expose(out: &mut String, metric: &Metric, labels: &[String], value: &Value) {
    let name = metric.name;
    let pairs = metric
        .labels
        .iter()
        .copied()
        .zip(labels.iter().map(String::as_str));
    match (value, metric.kind) {
        (Value::Number(value), _) => {
            let _ = writeln!(out, "{name}{} {value}", braces(pairs));
        }
        (Value::Histogram { buckets, sum }, Kind::Histogram(bounds)) => {
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
        (Value::Histogram { .. }, _) => {}
    }
}

/// Labels in braces; nothing without labels.
fn braces<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)));
    let pairs: Vec<String> = pairs.collect();
    match pairs.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", pairs.join(",")),
    }
}

/// What must not stand in a help text, or in the value of a label, by itself.
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
