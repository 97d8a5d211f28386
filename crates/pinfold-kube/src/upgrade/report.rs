//! A node of which only a Node object, a report and pods are known: what they show about an upgrade, and what not.

use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::node_topology::replica::{ReplicaError, RulesCache};
use pinfold_core::fidelity::{Fidelity, KubeletVersion, UnknownKubelet};

use super::config::{self, ConfigFile};
use super::pods;
use super::{NamedVersion, NodeUpgrade, StartProblem, UpgradeFinding, VersionChange};
use crate::cluster::{DialectName, KubeletReport, NodeSources};
use crate::diagnostic::Diagnostics;
use crate::json_value::JsonValue;
use crate::node::NodeObject;
use crate::node_resource_topology::NodeResourceTopology;
use crate::pod::PodObject;

/// What changes on a node of a cluster. `from` overrides the version of its Node object; `config` is the configuration
/// of its kubelet, if it is known.
///
/// # Errors
/// With every annotation of its report that cannot be parsed.
pub fn of_cluster_node(
    sources: &NodeSources<'_>,
    from: Option<&NamedVersion>,
    to: KubeletVersion,
    config: Option<&ConfigFile>,
    cache: &mut RulesCache,
) -> Result<NodeUpgrade, Diagnostics> {
    let mut node = match version_of(sources.node, from) {
        Ok(from) => NodeUpgrade::of_config(Some(sources.node.name()), from, to, config),
        Err(why) => {
            return Ok(NodeUpgrade {
                node: Some(sources.node.name()),
                from: None,
                findings: Vec::new(),
                not_known: vec![why],
            });
        }
    };
    if config.is_none() {
        node.not_known.push(
            "its configuration file: which gates it sets, and what else it says that the new version rejects (--config \
             FILE names it)"
                .to_owned(),
        );
    }
    node.not_known.push(
        "its state files: whether the new version reads them, and what it decides about running pods with them"
            .to_owned(),
    );
    match sources.topology {
        Some(topology) => add_report(&mut node, sources, topology, to, cache)?,
        None => node.not_known.push(
            "its machine and the policies of its managers: it has no NodeResourceTopology, so that its pods cannot be \
             compared"
                .to_owned(),
        ),
    }
    node.sort();
    Ok(node)
}

/// The version that a node runs, or why it is not known. `from` overrides that of the Node object.
///
/// # Errors
/// With a sentence about what is not known.
pub fn version_of(node: &NodeObject, from: Option<&NamedVersion>) -> Result<NamedVersion, String> {
    if let Some(from) = from {
        return Ok(from.clone());
    }
    match node.kubelet_version.as_deref() {
        None | Some("") => Err(
            "the version of its kubelet: the Node object has no status.nodeInfo.kubeletVersion (--from names it)"
                .to_owned(),
        ),
        Some(text) => text
            .parse()
            .map_err(|error: UnknownKubelet| format!("what its kubelet decides: {error}")),
    }
}

/// Compares the pods of a node with a report.
fn add_report(
    node: &mut NodeUpgrade,
    sources: &NodeSources<'_>,
    topology: &NodeResourceTopology,
    to: KubeletVersion,
    cache: &mut RulesCache,
) -> Result<(), Diagnostics> {
    let report = KubeletReport::read(topology)?.value;
    let agent = report.state().is_some_and(|state| {
        !state.fidelity.is_exact() || state.dialect == DialectName::Koordinator
    });
    if agent {
        node.not_known.push(
            "which managers its kubelet has: pinfold-agent in mode manage decides about its pods, by the same rules with \
             every kubelet"
                .to_owned(),
        );
        return Ok(());
    }
    let Some(from) = node.from.as_ref().map(|from| from.rules) else {
        return Ok(());
    };
    let change = VersionChange { from, to };
    let allocatable = Amounts::of(&sources.node.allocatable);
    let mut replica =
        |version| report.empty_replica(&allocatable, Fidelity::of_kubelet(version), cache);
    let (old, new) = (replica(from), replica(to));
    let (mut old, mut new) = match (old, new) {
        (Ok(old), Ok(new)) => (old.ledger().clone(), new.ledger().clone()),
        (Ok(old), Err(error)) => {
            let problems = config::problems_of_report(old.ledger().rules().settings(), change);
            add_problems(node, problems, &error);
            return Ok(());
        }
        (Err(error), _) => {
            node.not_known.push(format!(
                "its managers: they cannot be rebuilt from its report: {error}"
            ));
            return Ok(());
        }
    };
    let is_counted = !report.lists_cpus();
    if is_counted {
        node.not_known.push(
            "which CPUs are threads of one core or share a cache: its report counts CPUs, so that options about cores and \
             caches are not compared"
                .to_owned(),
        );
    }
    let (running, is_ordered) = running_in_order(&sources.pods);
    if !is_ordered {
        node.not_known.push(
            "the order of its pods: not all of them have a creationTimestamp, so that they are admitted in the order of \
             the file"
                .to_owned(),
        );
    }
    let running: Vec<_> = running
        .iter()
        .map(|pod| Arc::new(pod.pod.clone()))
        .collect();
    let compared = pods::compare(&mut old, &mut new, &running, is_counted);
    if !compared.rejected_before.is_empty() {
        node.not_known.push(format!(
            "what becomes of {}: kubelet {from} rejects them already when all pods are admitted in their order",
            compared.rejected_before.join(", ")
        ));
    }
    let changes = compared.changes.into_iter();
    node.findings.extend(changes.map(UpgradeFinding::Pod));
    Ok(())
}

/// The options of a report with which the new kubelet does not start; if none is to blame, its error.
fn add_problems(node: &mut NodeUpgrade, problems: Vec<StartProblem>, error: &ReplicaError) {
    let is_known = |problem: &StartProblem| {
        node.findings.iter().any(|finding| match finding {
            UpgradeFinding::Start(known) => known.field == problem.field,
            _ => false,
        })
    };
    let mut problems: Vec<StartProblem> = problems
        .into_iter()
        .filter(|problem| !is_known(problem))
        .collect();
    let is_explained = !problems.is_empty()
        || node
            .findings
            .iter()
            .any(|finding| matches!(finding, UpgradeFinding::Start(_)));
    if !is_explained {
        problems.push(StartProblem {
            field: "the settings of its report".to_owned(),
            place: None,
            problem: "the new version does not start with them".to_owned(),
            fix: "pinfold check shows what to change".to_owned(),
            message: Some(error.to_string()),
            today: false,
        });
    }
    node.findings
        .extend(problems.into_iter().map(UpgradeFinding::Start));
    node.not_known.push(
        "what becomes of its pods: the new version does not start with its settings".to_owned(),
    );
}

/// Pods in the order in which a kubelet admits them when it starts, that of their creation, and whether that order is
/// known.
#[must_use]
pub fn running_in_order<'a>(pods: &[&'a PodObject]) -> (Vec<&'a PodObject>, bool) {
    let created = |pod: &PodObject| {
        let mut fields = pod.meta.rest.iter();
        fields.find_map(|(name, value)| match value {
            JsonValue::Text(text) if name == "creationTimestamp" => Some(text.clone()),
            _ => None,
        })
    };
    let mut pods = pods.to_vec();
    let is_known = pods.len() < 2 || pods.iter().all(|pod| created(pod).is_some());
    if is_known {
        pods.sort_by_key(|pod| created(pod));
    }
    (pods, is_known)
}
