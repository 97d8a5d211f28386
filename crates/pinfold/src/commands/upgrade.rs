//! `pinfold upgrade`: what changes on nodes when their kubelets move to another version.

use std::process::ExitCode;
use std::sync::Arc;

use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::NodeName;
use pinfold_kube::cluster::NodeSources;
use pinfold_kube::decider::Decider;
use pinfold_kube::upgrade::{
    self, ConfigFile, NamedVersion, NodeUpgrade, StateFormats, UpgradeFinding,
};
use pinfold_terminal::upgrade::{UpgradeReport, read_config};
use pinfold_terminal::{Failure, REJECTED, Source};

use crate::args::UpgradeArgs;
use crate::cluster::ClusterFiles;
use crate::node::{NodeFiles, SimulatedNode};
use crate::output;
use crate::startup::StartProblem;

pub(crate) fn run(args: &UpgradeArgs) -> Result<ExitCode, Failure> {
    check(args)?;
    let decider = args.node.decider.decider;
    let nodes = match args.cluster.is_cluster(decider) {
        true => on_cluster(args)?,
        false => vec![on_machine(args)?],
    };
    let report = UpgradeReport::new(&args.to, &nodes);
    output::print_as(args.output, &report, || report.text(output::width()))?;
    Ok(match report.needs_work() {
        true => ExitCode::from(REJECTED),
        false => ExitCode::SUCCESS,
    })
}

/// Rejects flags of other commands that have no meaning here.
fn check(args: &UpgradeArgs) -> Result<(), Failure> {
    let bad = |text: &str| Err(Failure::BadInput(text.to_owned()));
    if args.node.decider.decider != Decider::default() {
        return bad(
            "--as: upgrade compares two versions of the kubelet: name them with --from and --to",
        );
    }
    if args.cluster.scheduler_config.is_some() {
        return bad("--scheduler-config: upgrade asks no scheduler");
    }
    if args.start.journal.is_some() {
        return bad(
            "--journal: the agent that wrote it decides by the same rules with every kubelet; give the kubelet's --state",
        );
    }
    Ok(())
}

/// One machine with its running pods.
fn on_machine(args: &UpgradeArgs) -> Result<NodeUpgrade, Failure> {
    let Some(from) = &args.from else {
        return Err(Failure::BadInput(
            "expected --from VERSION, the version of the kubelet that runs: a machine does not have it, as a Node object \
             of --nodes does"
                .to_owned(),
        ));
    };
    let files = args.start.node_files(&args.node)?;
    let start = args.start.running()?;
    let versions = Versions { from, to: &args.to };
    let mut found = versions.compare(&files, None, |node| {
        let started = start.after_script(node, &args.start, false)?;
        started
            .rejected
            .iter()
            .for_each(|line| output::remark(line));
        Ok((started.ledger, start.formats(node)?))
    })?;
    if start.is_directory() {
        found.not_known.push(
            "the order and the whole requests of the pods: the state files have uids and what is held, so that the pods \
             are admitted by uid"
                .to_owned(),
        );
    }
    Ok(found)
}

/// Every node of a cluster.
fn on_cluster(args: &UpgradeArgs) -> Result<Vec<NodeUpgrade>, Failure> {
    let running = args.start.cluster_pods_without_script()?;
    let mut files = ClusterFiles::read(&args.cluster, &args.node)?;
    files.add_running(running);
    let config = match &args.node.config {
        Some(path) => Some(read_config(path)?),
        None => None,
    };
    let mut cache = RulesCache::default();
    let nodes: Vec<NodeUpgrade> = files
        .sources()
        .iter()
        .map(|found| {
            let like = files.like().filter(|_| found.topology.is_none());
            let from = upgrade::version_of(found.node, args.from.as_ref());
            match (like, from) {
                (Some(like), Ok(from)) => like_machine(like, found, &from, &args.to),
                _ => upgrade::of_cluster_node(
                    found,
                    args.from.as_ref(),
                    args.to.rules,
                    config.as_ref(),
                    &mut cache,
                )
                .map_err(|findings| files.failure(found.node, &findings)),
            }
        })
        .collect::<Result<_, _>>()?;
    match nodes.is_empty() {
        true => Err(Failure::BadInput(
            "expected at least one node, found none: the files of --nodes have no Node".to_owned(),
        )),
        false => Ok(nodes),
    }
}

/// A node like the machine of the arguments, with its own pods.
fn like_machine(
    like: &NodeFiles,
    found: &NodeSources<'_>,
    from: &NamedVersion,
    to: &NamedVersion,
) -> Result<NodeUpgrade, Failure> {
    let versions = Versions { from, to };
    versions.compare(like, Some(found.node.name()), |node| {
        let mut ledger = node.ledger();
        let (pods, _) = upgrade::running_in_order(&found.pods);
        for pod in pods {
            let admitted = ledger.admit(&Arc::new(pod.pod.clone()), &mut NoPreference);
            admitted.map_err(|error| Failure::BadInput(error.to_string()))?;
        }
        let formats = StateFormats::written_by(&node.rules);
        Ok((ledger, formats))
    })
}

/// The versions of a kubelet before and after.
struct Versions<'a> {
    from: &'a NamedVersion,
    to: &'a NamedVersion,
}

impl Versions<'_> {
    /// What changes on a node with these files. `running` adds the running pods to the node under the version that runs.
    fn compare(
        &self,
        files: &NodeFiles,
        name: Option<NodeName>,
        running: impl FnOnce(&SimulatedNode) -> Result<(Ledger, StateFormats), Failure>,
    ) -> Result<NodeUpgrade, Failure> {
        let (from, to) = (self.from.clone(), self.to.rules);
        let kubelet = |version: &NamedVersion| Decider::Kubelet(version.rules);
        let old = match files.starting_node(kubelet(self.from), Source::warn)? {
            Ok(node) => node,
            Err(problems) => {
                let mut found = NodeUpgrade::of_config(name, from, to, None);
                found.findings.splice(0..0, start_problems(&problems, true));
                found.not_known.push(
                    "state files and pods: the version that runs does not start with this configuration on this machine; \
                     give the --config and --machine of the node"
                        .to_owned(),
                );
                return Ok(found);
            }
        };
        let config = files.config();
        let config = config.map(|source| ConfigFile::read(&source.name, &source.bytes));
        // The kubelet that runs starts with it.
        let config = config.and_then(Result::ok).map(|read| read.value);
        let mut found = NodeUpgrade::of_config(name, from, to, config.as_ref());
        if config.is_none() {
            found.not_known.push(
                "its configuration file: the built-in settings of --config are taken, which set no gate".to_owned(),
            );
        }
        let (ledger, formats) = running(&old)?;
        match files.starting_node(kubelet(self.to), |_, _| {})? {
            Ok(new) => found.compare(&ledger, &new.ledger(), formats, config.as_ref()),
            Err(problems) => {
                let is_explained = |finding| matches!(finding, &UpgradeFinding::Start(_));
                if !found.findings.iter().any(is_explained) {
                    found
                        .findings
                        .splice(0..0, start_problems(&problems, false));
                }
                found.not_known.push(
                    "what becomes of state files and pods: the new version does not start with this configuration"
                        .to_owned(),
                );
            }
        }
        Ok(found)
    }
}

/// The problems of `pinfold check` as findings.
fn start_problems(problems: &[StartProblem], today: bool) -> Vec<UpgradeFinding> {
    let problems = problems.iter().map(|problem| {
        UpgradeFinding::Start(upgrade::StartProblem {
            field: "the configuration".to_owned(),
            place: None,
            problem: problem.problem.clone(),
            fix: problem.fix.clone(),
            message: Some(problem.message.clone()),
            today,
        })
    });
    problems.collect()
}
