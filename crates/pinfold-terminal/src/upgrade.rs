//! [`UpgradeReport`]: what changes on each node when its kubelet moves to another version, as text, JSON or YAML.

use std::fmt::Write;
use std::path::Path;

use pinfold_kube::state::KubeletManager;
use pinfold_kube::upgrade::{
    ConfigFile, NamedVersion, NodeUpgrade, Placed, PodOutcome, Readmission, UpgradeFinding,
};
use pinfold_render::amount;
use pinfold_render::placement;
use pinfold_render::text::{count, grouped, paragraph};
use serde::Serialize;

use crate::exit::Failure;
use crate::source::Source;

/// The most nodes named in one heading; further ones are counted.
const NAMED: usize = 3;
/// The most pods of one group of nodes that are written out; further ones are counted.
const LISTED: usize = 20;

/// What changes on each node when its kubelet moves to another version.
#[derive(Clone, Debug, Serialize)]
pub struct UpgradeReport {
    /// The version that the kubelets move to.
    to: String,
    /// The version whose rules predict it, if it is newer than every known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_as: Option<String>,
    /// Whether some kubelet would not start or some pod would be rejected.
    needs_work: bool,
    /// The nodes, in the order of the input.
    nodes: Vec<NodeRow>,
}

/// What changes on one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct NodeRow {
    /// The node; left out for the only machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The version that runs; left out if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The version whose rules predict the one that runs, if it is newer than every known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_predicted_as: Option<String>,
    findings: Vec<FindingRow>,
    /// What could not be examined.
    not_known: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum FindingRow {
    /// The kubelet does not start with a field of its configuration.
    Start {
        field: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
        problem: String,
        fix: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Whether the version that runs does not start with it either.
        today: bool,
    },
    /// A state file must be deleted.
    StateFile {
        file: &'static str,
        problem: String,
        fix: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        today: bool,
    },
    /// A pod is rejected.
    PodRejected {
        pod: String,
        /// `restart` or `anew`.
        when: &'static str,
        reason: String,
        message: String,
        /// Whether a restart of the version that runs rejects it too.
        today: bool,
    },
    /// A pod is placed otherwise.
    PodPlaced {
        pod: String,
        when: &'static str,
        before: String,
        after: String,
    },
    /// A feature gate flips.
    Gate {
        name: &'static str,
        about: &'static str,
        before: bool,
        after: bool,
    },
    /// The default of a field of the configuration flips.
    Default {
        name: &'static str,
        about: &'static str,
        before: bool,
        after: bool,
    },
}

impl FindingRow {
    fn of(finding: &UpgradeFinding) -> Self {
        match finding {
            UpgradeFinding::Start(start) => Self::Start {
                field: start.field.clone(),
                file: start.place.as_ref().map(|place| place.file.clone()),
                line: (start.place.as_ref()).and_then(|place| Some(place.at?.line)),
                problem: start.problem.clone(),
                fix: start.fix.clone(),
                message: start.message.clone(),
                today: start.today,
            },
            UpgradeFinding::StateFile(problem) => Self::StateFile {
                file: problem.manager.file_name(),
                problem: problem.problem.clone(),
                fix: remedy(problem.manager),
                message: problem.message.clone(),
                today: problem.today,
            },
            UpgradeFinding::Pod(change) => match &change.outcome {
                PodOutcome::Rejected {
                    reason,
                    message,
                    today,
                } => Self::PodRejected {
                    pod: change.pod.clone(),
                    when: when(change.when),
                    reason: reason.clone(),
                    message: message.clone(),
                    today: *today,
                },
                PodOutcome::Placed { before, after } => Self::PodPlaced {
                    pod: change.pod.clone(),
                    when: when(change.when),
                    before: placed(before),
                    after: placed(after),
                },
            },
            UpgradeFinding::Flip(flip) => {
                let (name, about) = (flip.name, flip.about);
                let (before, after) = (flip.before, flip.after);
                match flip.is_gate {
                    true => Self::Gate {
                        name,
                        about,
                        before,
                        after,
                    },
                    false => Self::Default {
                        name,
                        about,
                        before,
                        after,
                    },
                }
            }
        }
    }
}

fn when(when: Readmission) -> &'static str {
    match when {
        Readmission::Restart => "restart",
        Readmission::Anew => "anew",
    }
}

/// What to do with a state file that the new kubelet does not start from.
fn remedy(manager: KubeletManager) -> String {
    let file = manager.file_name();
    format!("drain the node, stop its kubelet, delete {file}, start the new kubelet")
}

/// What a pod holds: by id, or by NUMA node where the ids stand for counts.
fn placed(placed: &Placed) -> String {
    if !placed.is_counted {
        return placement::placement(&placed.assignment);
    }
    let cpus = placed.cpus_on_nodes.iter();
    let mut words: Vec<String> = cpus
        .map(|(node, cpus)| format!("{} of node {node}", count(*cpus, "CPU", "CPUs")))
        .collect();
    for container in &placed.assignment.containers {
        for block in container
            .memory
            .iter()
            .flatten()
            .filter(|block| block.size > 0)
        {
            let (nodes, bytes) = (block.nodes, amount::bytes(block.size));
            words.push(format!("{} {bytes} of node {nodes}", block.resource));
        }
        let devices = container.devices.iter();
        words.extend(devices.map(|(resource, ids)| format!("{} {resource}", ids.len())));
    }
    match words.is_empty() {
        true => placement::SHARED.to_owned(),
        false => words.join(", "),
    }
}

/// Reads the configuration of the kubelets of a cluster.
///
/// # Errors
/// If it is not a configuration that every version accepts.
pub fn read_config(path: &Path) -> Result<ConfigFile, Failure> {
    let source = Source::open(path)?;
    let read = ConfigFile::read(&source.name, &source.bytes);
    let read = read.map_err(|findings| source.failure(&findings))?;
    source.warn(&read.warnings);
    Ok(read.value)
}

impl UpgradeReport {
    /// The report about kubelets that move to this version.
    #[must_use]
    pub fn new(to: &NamedVersion, nodes: &[NodeUpgrade]) -> Self {
        let findings = nodes.iter().flat_map(|node| &node.findings);
        let row = |node: &NodeUpgrade| {
            let newer = node.from.as_ref().filter(|from| from.is_newer);
            NodeRow {
                node: node.node.as_ref().map(ToString::to_string),
                from: node.from.as_ref().map(|from| from.text.clone()),
                from_predicted_as: newer.map(|from| from.rules.to_string()),
                findings: node.findings.iter().map(FindingRow::of).collect(),
                not_known: node.not_known.clone(),
            }
        };
        Self {
            to: to.text.clone(),
            predicted_as: to.is_newer.then(|| to.rules.to_string()),
            needs_work: findings.into_iter().any(UpgradeFinding::needs_work),
            nodes: nodes.iter().map(row).collect(),
        }
    }

    /// Whether some kubelet would not start or some pod would be rejected.
    #[must_use]
    pub fn needs_work(&self) -> bool {
        self.needs_work
    }

    /// The report as text of so many columns.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        let newer = |version: &str, rules: &str| {
            let line = format!(
                "kubelet {version} is newer than {rules}, the newest version whose decisions are known: it is predicted \
                 as {rules}"
            );
            paragraph("", &line, 2, width)
        };
        if let Some(rules) = &self.predicted_as {
            text.push_str(&newer(&self.to, rules));
            text.push('\n');
        }
        for (index, group) in self.groups().into_iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.push_str(&self.group(&group, width));
            if let (Some(rules), Some(from)) = (&group[0].from_predicted_as, &group[0].from) {
                text.push_str(&newer(from, rules));
            }
        }
        text
    }

    /// Nodes with equal rows together, those that need work first.
    fn groups(&self) -> Vec<Vec<&NodeRow>> {
        let mut groups: Vec<Vec<&NodeRow>> = Vec::new();
        for node in &self.nodes {
            let same = |group: &&mut Vec<&NodeRow>| {
                let first = group[0];
                first.from == node.from
                    && first.findings == node.findings
                    && first.not_known == node.not_known
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(node),
                None => groups.push(vec![node]),
            }
        }
        groups.sort_by_key(|group| {
            let mut findings = group[0].findings.iter();
            !findings.any(|finding| {
                matches!(
                    finding,
                    FindingRow::Start { .. }
                        | FindingRow::StateFile { .. }
                        | FindingRow::PodRejected { .. }
                )
            })
        });
        groups
    }

    fn group(&self, group: &[&NodeRow], width: usize) -> String {
        let row = group[0];
        let mut text = paragraph("", &self.heading(group), 2, width);
        let of =
            |wanted: fn(&FindingRow) -> bool| row.findings.iter().filter(move |row| wanted(row));
        let starts = of(|row| matches!(row, FindingRow::Start { .. }));
        section(&mut text, "does not start with", starts, width);
        let files = of(|row| matches!(row, FindingRow::StateFile { .. }));
        section(&mut text, "state files to delete", files, width);
        let restarted = of(|row| is_pod(row, "restart"));
        section(
            &mut text,
            "pods when the new kubelet starts",
            restarted,
            width,
        );
        let anew = of(|row| is_pod(row, "anew"));
        let title = "pods when they are created again in the same order, as after a drain";
        section(&mut text, title, anew, width);
        let flips = of(|row| matches!(row, FindingRow::Gate { .. } | FindingRow::Default { .. }));
        section(&mut text, "gates and defaults that flip", flips, width);
        if !row.not_known.is_empty() {
            text.push_str("  not known\n");
            for what in &row.not_known {
                text.push_str(&paragraph("    - ", what, 6, width));
            }
        }
        text
    }

    /// `worker-1, worker-2: kubelet v1.33.5 to 1.36`
    fn heading(&self, group: &[&NodeRow]) -> String {
        let row = group[0];
        let names = group.iter().filter_map(|row| row.node.as_deref());
        let names: Vec<&str> = names.collect();
        let mut heading = names
            .iter()
            .take(NAMED)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(more @ 1..) = names.len().checked_sub(NAMED) {
            let _ = write!(heading, " and {} more", grouped(more));
        }
        if !heading.is_empty() {
            heading.push_str(": ");
        }
        let to = &self.to;
        let _ = match &row.from {
            Some(from) => write!(heading, "kubelet {from} to {to}"),
            None => write!(heading, "not examined"),
        };
        if row.from.is_some() && row.findings.is_empty() {
            heading.push_str(": nothing changes, as far as it is known");
        }
        heading
    }
}

fn is_pod(row: &FindingRow, wanted: &str) -> bool {
    match row {
        FindingRow::PodRejected { when, .. } | FindingRow::PodPlaced { when, .. } => {
            *when == wanted
        }
        _ => false,
    }
}

fn section<'a>(
    text: &mut String,
    title: &str,
    rows: impl Iterator<Item = &'a FindingRow>,
    width: usize,
) {
    let rows: Vec<&FindingRow> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title}");
    for row in rows.iter().take(LISTED) {
        text.push_str(&finding(row, width));
    }
    if let Some(more @ 1..) = rows.len().checked_sub(LISTED) {
        let _ = writeln!(text, "    ... {} more (-o json lists all)", grouped(more));
    }
}

fn finding(row: &FindingRow, width: usize) -> String {
    let item = |line: &str| paragraph("    - ", line, 6, width);
    let detail = |line: &str| paragraph("      ", line, 8, width);
    let onoff = |on: bool| if on { "on" } else { "off" };
    match row {
        FindingRow::Start {
            field,
            file,
            line,
            problem,
            fix,
            message,
            today,
        } => {
            let place = match (file, line) {
                (Some(file), Some(line)) => format!("{file}:{line}: {field}"),
                (Some(file), None) => format!("{file}: {field}"),
                (None, _) => field.clone(),
            };
            let mut text = item(&place);
            text.push_str(&detail(&also(problem, *today, "does not start with it")));
            text.push_str(&detail(&format!("fix: {fix}")));
            text.push_str(&said(message.as_deref(), width));
            text
        }
        FindingRow::StateFile {
            file,
            problem,
            fix,
            message,
            today,
        } => {
            let mut text = item(file);
            text.push_str(&detail(&also(problem, *today, "does not start from it")));
            text.push_str(&detail(&format!("fix: {fix}")));
            text.push_str(&said(message.as_deref(), width));
            text
        }
        FindingRow::PodRejected {
            pod,
            reason,
            message,
            today,
            ..
        } => {
            let line = format!("{pod} is rejected: {reason}: {message}");
            item(&also(&line, *today, "rejects it when it restarts"))
        }
        FindingRow::PodPlaced {
            pod, before, after, ..
        } => {
            let mut text = item(&format!("{pod} is placed otherwise"));
            text.push_str(&detail(&format!("before: {before}")));
            text.push_str(&detail(&format!("after:  {after}")));
            text
        }
        FindingRow::Gate {
            name,
            about,
            before,
            after,
        }
        | FindingRow::Default {
            name,
            about,
            before,
            after,
        } => item(&format!(
            "{name}: {} to {} ({about})",
            onoff(*before),
            onoff(*after)
        )),
    }
}

/// A problem, and that the version that runs has it as well.
fn also(problem: &str, today: bool, what: &str) -> String {
    match today {
        true => format!("{problem} (the version that runs {what} too)"),
        false => problem.to_owned(),
    }
}

fn said(message: Option<&str>, width: usize) -> String {
    match message {
        Some(message) => paragraph("      ", &format!("the kubelet says: {message}"), 8, width),
        None => String::new(),
    }
}
