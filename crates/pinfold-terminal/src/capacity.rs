//! [`CapacityReport`]: the replicas of a pod that start on each node, as text, JSON or YAML.

use std::collections::BTreeMap;
use std::fmt::Write;

use pinfold_core::name::NodeName;
use pinfold_core::policy::TopologyPolicy;
use pinfold_kube::capacity::{NodeReplicas, PolicyReplicas, ReplicaLimit};
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, grouped, paragraph};
use serde::Serialize;

/// The most groups of equal nodes that are listed; further ones are counted.
const LISTED: usize = 20;
/// The most names in a sentence or cell; further ones are counted.
const NAMED: usize = 3;
/// The most nodes whose rejection is written out.
const EXPLAINED: usize = 3;

/// How many replicas of a pod start, on each node and in all.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityReport {
    /// The pod.
    pod: String,
    /// Who decides.
    decider: String,
    /// The replicas that the sums of the nodes' resources promise.
    promised: usize,
    /// The replicas that start.
    started: usize,
    /// The promised replicas that the NUMA nodes have no room for.
    lost: usize,
    /// The nodes, ascending by name.
    nodes: Vec<NodeRow>,
    /// The replicas that start under every policy and scope of the kubelets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<PolicyRow>,
    /// The nodes of which only sums are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_topology: Vec<NodeName>,
    /// What kube-scheduler or the kubelet checks about the pod and is not part of the count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_simulated: Vec<&'static str>,
}

/// The replicas of one node.
#[derive(Clone, Debug, Serialize)]
struct NodeRow {
    node: NodeName,
    promised: usize,
    started: usize,
    /// Why no more start, without amounts.
    reason: String,
    /// The same with amounts.
    message: String,
    /// Whether a constraint excludes the node.
    excluded: bool,
}

impl NodeRow {
    fn of(found: &NodeReplicas) -> Self {
        Self {
            node: found.node.clone(),
            promised: found.promised,
            started: found.started,
            reason: found.limit.summary(),
            message: found.limit.message(),
            excluded: matches!(found.limit, ReplicaLimit::Constraint { .. }) && found.promised == 0,
        }
    }

    fn lost(&self) -> usize {
        self.promised.saturating_sub(self.started)
    }
}

/// The replicas of all nodes under one policy and scope.
#[derive(Clone, Debug, Serialize)]
struct PolicyRow {
    policy: &'static str,
    scope: &'static str,
    started: usize,
    lost: usize,
    /// The nodes on which no kubelet starts with the policy, or running pods cannot keep what they hold.
    impossible_nodes: usize,
}

/// Nodes with equal counts and the same reason.
struct NodeGroup<'a> {
    first: &'a NodeRow,
    nodes: Vec<&'a NodeName>,
}

impl NodeGroup<'_> {
    fn lost(&self) -> usize {
        self.first.lost() * self.nodes.len()
    }
}

impl CapacityReport {
    /// The report about a pod.
    #[must_use]
    pub fn new(pod: &str, decider: String, nodes: &[NodeReplicas]) -> Self {
        let nodes: Vec<NodeRow> = nodes.iter().map(NodeRow::of).collect();
        let promised = nodes.iter().map(|node| node.promised).sum();
        let started = nodes.iter().map(|node| node.started).sum();
        Self {
            pod: pod.to_owned(),
            decider,
            promised,
            started,
            lost: nodes.iter().map(NodeRow::lost).sum(),
            nodes,
            policies: Vec::new(),
            without_topology: Vec::new(),
            not_simulated: Vec::new(),
        }
    }

    /// The same with the counts under other policies.
    #[must_use]
    pub fn with_policies(self, found: &[PolicyReplicas]) -> Self {
        let row = |found: &PolicyReplicas| PolicyRow {
            policy: found.policy.policy.name(),
            scope: found.policy.scope.name(),
            started: found.started,
            lost: self.promised.saturating_sub(found.started),
            impossible_nodes: found.impossible,
        };
        Self {
            policies: found.iter().map(row).collect(),
            ..self
        }
    }

    /// The same with the nodes of which only sums are known.
    #[must_use]
    pub fn with_nodes_without_topology(self, without_topology: Vec<NodeName>) -> Self {
        Self {
            without_topology,
            ..self
        }
    }

    /// The same with what is not part of the count.
    #[must_use]
    pub fn with_not_simulated(self, not_simulated: Vec<&'static str>) -> Self {
        Self {
            not_simulated,
            ..self
        }
    }

    /// How many replicas start.
    #[must_use]
    pub fn started(&self) -> usize {
        self.started
    }

    /// The report as text of so many columns.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut text = self.head(width);
        let groups = self.groups();
        match self.nodes.as_slice() {
            [only] => text.push_str(&paragraph(
                "  ",
                &format!("the next one: {}", only.message),
                2,
                width,
            )),
            _ => {
                text.push('\n');
                text.push_str(&group_table(&groups, width));
                text.push_str(&explained(&groups, width));
            }
        }
        if !self.policies.is_empty() {
            text.push('\n');
            text.push_str(&self.policy_table());
        }
        if !self.without_topology.is_empty() && self.nodes.len() > 1 {
            let names = named(&self.without_topology);
            let line = format!("{names}: no NUMA topology is known, so the sums decide alone");
            text.push('\n');
            text.push_str(&paragraph("", &line, 2, width));
        }
        for what in &self.not_simulated {
            text.push_str(&paragraph("not simulated: ", what, 2, width));
        }
        text
    }

    /// The counts of the whole cluster.
    fn head(&self, width: usize) -> String {
        let head = format!(
            "Pod {}: the sums promise {}, {} (as {}).",
            self.pod,
            count(self.promised, "replica", "replicas"),
            match self.started {
                0 => "none starts".to_owned(),
                1 => "1 starts".to_owned(),
                some => format!("{} start", grouped(some)),
            },
            self.decider
        );
        let mut text = paragraph("", &head, 2, width);
        if self.lost > 0 {
            let losing = self.nodes.iter().filter(|node| node.lost() > 0);
            let losing: Vec<&NodeName> = losing.map(|node| &node.node).collect();
            let lost = match self.lost {
                1 => "1 is lost".to_owned(),
                some => format!("{} are lost", grouped(some)),
            };
            let line = match self.nodes.len() {
                1 => format!("{lost} to fragmentation"),
                all => format!(
                    "{lost} to fragmentation on {} of {}: {}",
                    grouped(losing.len()),
                    count(all, "node", "nodes"),
                    named(&losing)
                ),
            };
            text.push_str(&paragraph("  ", &line, 2, width));
        }
        text
    }

    /// Equal nodes together: those that lose most first, then the larger groups.
    fn groups(&self) -> Vec<NodeGroup<'_>> {
        let mut groups = BTreeMap::<(usize, usize, &str), NodeGroup<'_>>::new();
        for node in &self.nodes {
            let group = groups.entry((node.promised, node.started, &node.reason));
            let group = group.or_insert_with(|| NodeGroup {
                first: node,
                nodes: Vec::new(),
            });
            group.nodes.push(&node.node);
        }
        let mut groups: Vec<NodeGroup<'_>> = groups.into_values().collect();
        groups.sort_by_key(|group| {
            let (lost, started) = (group.lost(), group.first.started * group.nodes.len());
            std::cmp::Reverse((lost, started, group.nodes.len()))
        });
        groups
    }

    fn policy_table(&self) -> String {
        let mut table = Table::new([
            ("policy", Align::Left),
            ("scope", Align::Left),
            ("start", Align::Right),
            ("lost", Align::Right),
            ("", Align::Left),
        ]);
        for row in &self.policies {
            let scope = match row.policy == TopologyPolicy::None.name() {
                true => "-",
                false => row.scope,
            };
            let remark = match row.impossible_nodes {
                0 => String::new(),
                some => format!("not possible on {}", count(some, "node", "nodes")),
            };
            table.row([
                row.policy.to_owned(),
                scope.to_owned(),
                grouped(row.started),
                grouped(row.lost),
                remark,
            ]);
        }
        table.draw()
    }
}

/// One row per group of equal nodes.
fn group_table(groups: &[NodeGroup<'_>], width: usize) -> String {
    let listed = &groups[..groups.len().min(LISTED)];
    let mut table = Table::new([
        ("nodes", Align::Right),
        ("promised", Align::Right),
        ("start", Align::Right),
        ("why no more", Align::Left),
        ("", Align::Left),
    ]);
    let reasons = listed
        .iter()
        .map(|group| short(&group.first.reason).chars().count());
    let used =
        reasons.max().unwrap_or(0).max("why no more".len()) + "nodes promised start".len() + 8;
    for group in listed {
        let each = |number: usize| match group.first.excluded {
            true => "-".to_owned(),
            false => grouped(number),
        };
        table.row([
            grouped(group.nodes.len()),
            each(group.first.promised),
            each(group.first.started),
            short(&group.first.reason).to_owned(),
            fitting_names(&group.nodes, width.saturating_sub(used)),
        ]);
    }
    let mut text = table.draw();
    let rest = &groups[listed.len()..];
    if !rest.is_empty() {
        let nodes = rest.iter().map(|group| group.nodes.len()).sum();
        let _ = writeln!(
            text,
            "... {} on {} (-o json lists all)",
            count(rest.len(), "more count", "more counts"),
            count(nodes, "node", "nodes")
        );
    }
    text
}

/// kube-scheduler's reason without the words about nodes, which the first column counts.
fn short(reason: &str) -> &str {
    reason.strip_prefix("node(s) ").unwrap_or(reason)
}

/// Why the next replica does not start on some of the nodes that lose replicas.
fn explained(groups: &[NodeGroup<'_>], width: usize) -> String {
    let losing = groups.iter().filter(|group| group.lost() > 0);
    let lines: Vec<String> = losing
        .take(EXPLAINED)
        .map(|group| {
            let line = format!("{}: {}", group.first.node, group.first.message);
            paragraph("  ", &line, 4, width)
        })
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("\nthe next replica\n{}", lines.concat()),
    }
}

/// As many names as fit into the columns, at least one, and the number of the others.
fn fitting_names(names: &[&NodeName], columns: usize) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let rest = names.len() - index;
        let more = match rest {
            1 => String::new(),
            _ => format!(", {} more", grouped(rest - 1)),
        };
        let comma = if index == 0 { "" } else { ", " };
        let longer = format!("{text}{comma}{name}");
        if index > 0 && (index == NAMED || longer.chars().count() + more.chars().count() > columns)
        {
            let _ = write!(text, ", {} more", grouped(rest));
            return text;
        }
        text = longer;
    }
    text
}

/// `a, b, c`; `a, b, c and 4 more`.
fn named<S: ToString>(names: &[S]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(S::to_string).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {} more", grouped(more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_are_counted() {
        let names: Vec<NodeName> = ["a-1", "a-2", "a-3", "a-4"].map(NodeName::from).into();
        let names: Vec<&NodeName> = names.iter().collect();
        for (columns, expected) in [
            (0, "a-1, 3 more"),
            (16, "a-1, a-2, 2 more"),
            (80, "a-1, a-2, a-3, 1 more"),
        ] {
            assert_eq!(fitting_names(&names, columns), expected);
        }
        assert_eq!(fitting_names(&names[..2], 80), "a-1, a-2");
    }
}
