//! Reports measurements: as text for the terminal, as JSON, and as Markdown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::case::{BenchCase, Group};
use crate::cases::page::PageSize;
use crate::instructions::InstructionCounts;
use crate::reference::Reference;

/// One measured case.
pub(crate) struct MeasuredCase {
    /// Its group.
    pub(crate) group: Group,
    name: String,
    cpu_ns: f64,
    reference: Reference,
    target_ns: Option<f64>,
}

impl MeasuredCase {
    /// Measures a case.
    pub(crate) fn of(case: &BenchCase) -> Self {
        Self {
            group: case.group,
            name: case.name.clone(),
            cpu_ns: (case.measure() * 10.0).round() / 10.0,
            reference: case.reference.clone(),
            target_ns: case.target_ns,
        }
    }

    fn reference_ns(&self) -> Option<u64> {
        match self.reference {
            Reference::Measured(figure) => Some(figure),
            Reference::None | Reference::Estimated(_) => None,
        }
    }

    /// The CPU time of the original program divided by ours.
    fn ratio(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a quotient of two measurements")]
        let times = self.reference_ns()? as f64 / self.cpu_ns;
        Some((times * 10.0).round() / 10.0)
    }

    fn is_met(&self) -> Option<bool> {
        Some(self.cpu_ns <= self.target_ns?)
    }

    /// Its name, with the estimate for the kubelet if there is one.
    fn full_name(&self) -> String {
        match &self.reference {
            Reference::Estimated(text) => format!("{} (kubelet {text})", self.name),
            _ => self.name.clone(),
        }
    }

    fn cells(&self) -> [String; 5] {
        let kubelet = match &self.reference {
            Reference::None => String::new(),
            Reference::Measured(figure) => thousands(*figure),
            Reference::Estimated(text) => text.clone(),
        };
        let target = match (self.target_ns, self.is_met()) {
            (Some(target), Some(met)) => {
                let word = if met { "met" } else { "MISSED" };
                format!("{word} ({} µs)", target / 1000.0)
            }
            _ => String::new(),
        };
        [
            self.name.clone(),
            nanoseconds(self.cpu_ns),
            kubelet,
            self.ratio()
                .map_or_else(String::new, |ratio| format!("{}×", nanoseconds(ratio))),
            target,
        ]
    }

    /// The line for the terminal.
    pub(crate) fn line(&self) -> String {
        let [name, ours, kubelet, ratio, target] = self.cells();
        let line = format!("{name:<56} {ours:>11} {kubelet:>28} {ratio:>12}  {target}");
        line.trim_end().to_owned()
    }

    fn json(&self) -> Value {
        json!({
            "group": self.group.name(),
            "name": self.full_name(),
            "cpu_ns": self.cpu_ns,
            "reference_cpu_ns": self.reference_ns(),
            "ratio": self.ratio(),
        })
    }
}

/// The head of a group's table.
pub(crate) fn heading(group: Group) -> String {
    let title = title(group);
    format!(
        "{title}\n{:<56} {:>11} {:>28} {:>12}  target",
        "", "CPU ns/op", "original CPU ns/op", "ratio"
    )
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Merge => "Merge: every set of nodes is possible, single nodes are preferred",
        Group::Hints => "Hints of the static CPU policy for 8 CPUs, idle machine",
        Group::Picking => "Picking CPUs, 4 NUMA nodes",
        Group::Admission => "Whole admission of a pod with 4 CPUs, 1 GiB and 1 device",
        Group::MergeInFull => {
            "Five resources: the managers' hints and their merge; scenes at their worst"
        }
        Group::Growth => "Growth",
        Group::Koordinator => "Koordinator: filter of one node, 8 CPUs in whole cores and 16 GiB",
        Group::Volcano => "Volcano: predicate of one node, 8 CPUs and 16 GiB",
        Group::Cluster => "Cluster: one pod, every node evaluated and ranked on one core",
        Group::Engine => "Engine: one call of kube-scheduler's plugin, on one core",
        Group::Page => "Page: one answer of the server, on one core",
        Group::Planning => "Planning: snapshots, replicas and long simulations, on one core",
    }
}

/// A sentence about how many targets are met.
pub(crate) fn targets_met(rows: &[MeasuredCase]) -> String {
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| row.is_met() == Some(false))
        .map(|row| row.name.as_str())
        .collect();
    let all = rows.iter().filter(|row| row.is_met().is_some()).count();
    match missed.as_slice() {
        [] => format!("All {all} targets are met."),
        missed => format!(
            "{} of {all} targets are missed: {}.",
            missed.len(),
            missed.join("; ")
        ),
    }
}

/// A list of `{group, name, cpu_ns, reference_cpu_ns, ratio}`.
pub(crate) fn json(rows: &[MeasuredCase]) -> String {
    let rows: Vec<Value> = rows.iter().map(MeasuredCase::json).collect();
    format!("{:#}\n", json!(rows))
}

const INTRODUCTION: &str = "\
# Benchmarks

`make bench` measures every shape of the kubelet's own figures
([conformance/kubelet/BENCH.md](../conformance/kubelet/BENCH.md), Kubernetes v1.36.4) and more, and writes
`target/bench.json` and `target/instructions.json`. `make bench-docs` also writes this page.

- **CPU ns/op** is user and system time of the process per operation, the least of five rounds, in a release build.
- The **originals**' figures, the kubelet's and those of Koordinator's and Volcano's plugins, were recorded on the same
  kind of machine; they are read from the records; *estimated* ones were not run to the end.
- A cluster is 5,000 nodes in random states, all different. *Warm* means that a pod of the same shape was evaluated
  before and few nodes changed since.
- The **ratio** says how many times less CPU time we need.
- The merge of the first table is ours with the families built in every operation; the kubelet's is given its hints
  ready-made. A whole admission includes the release of the pod before it; the kubelet's also writes its state files to
  a file system in memory, ours returns the change as a value.
- A row of scenes or crowded nodes shows the slowest of 12 random ones, of adversarial scenes of 40.
- **Instructions** are counted by valgrind and hardly differ between runs: compare those in CI.

The machine of this page was a virtual machine with 2 CPUs, shared with other work.
";

/// `docs/benchmarks.md`.
pub(crate) fn markdown(
    rows: &[MeasuredCase],
    counts: &InstructionCounts,
    sizes: &[PageSize],
) -> String {
    let mut text = format!("{INTRODUCTION}\n{}\n", targets_met(rows));
    let mut group = None;
    for row in rows {
        if group != Some(row.group) {
            group = Some(row.group);
            let title = title(row.group);
            let head =
                "| | CPU ns/op | original CPU ns/op | ratio | target |\n|---|--:|--:|--:|---|";
            writeln!(text, "\n## {title}\n\n{head}").expect("a String takes all text");
        }
        writeln!(text, "| {} |", row.cells().join(" | ")).expect("a String takes all text");
    }
    text.push_str("\n## Page: sizes\n\n| | bytes | target |\n|---|--:|---|\n");
    for size in sizes {
        let [name, bytes, target] = size_cells(size);
        writeln!(text, "| {name} | {bytes} | {target} |").expect("a String takes all text");
    }
    if !counts.is_empty() {
        text.push_str("\n## Instructions per operation\n\n");
        text.push_str("A row of scenes or crowded nodes counts the first of them.\n\n");
        text.push_str("| | instructions |\n|---|--:|\n");
        for (name, count) in counts {
            writeln!(text, "| {name} | {} |", thousands(*count)).expect("a String takes all text");
        }
    }
    text
}

fn size_cells(size: &PageSize) -> [String; 3] {
    let target = size.most.map(|most| {
        let word = if size.bytes <= most { "met" } else { "MISSED" };
        format!("{word} ({})", thousands(most))
    });
    [
        size.name.to_owned(),
        thousands(size.bytes),
        target.unwrap_or_default(),
    ]
}

/// The line for the terminal.
pub(crate) fn size_line(size: &PageSize) -> String {
    let [name, bytes, target] = size_cells(size);
    let line = format!("{name:<56} {bytes:>11}  {target}");
    line.trim_end().to_owned()
}

/// A list of `{name, bytes}`.
pub(crate) fn sizes_json(sizes: &[PageSize]) -> String {
    let rows = sizes.iter();
    let rows: Vec<Value> = rows
        .map(|size| json!({"name": size.name, "bytes": size.bytes}))
        .collect();
    format!("{:#}\n", json!(rows))
}

/// With one decimal below 100, else whole and in groups of three.
fn nanoseconds(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time, rounded"
    )]
    let whole = value.round() as u64;
    thousands(whole)
}

fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
