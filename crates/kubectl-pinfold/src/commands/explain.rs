//! `kubectl pinfold explain pod`: where a pod is and why, or why no node takes it and what would let it in.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use pinfold_core::cluster::{Cluster, Evaluation, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_kube::cluster::{LocationSource, PodChange, PodLocation, find_changes};
use pinfold_kube::pod::PodObject;
use pinfold_kube::scheduling_constraints::PodConstraints;
use pinfold_render::explain as words;
use serde::Serialize;

use self::text::text;
use super::cluster_state::ClusterState;
use super::moves::{Mover, Plan};
use super::reasons::{self, No, Reason};
use crate::args::PodArgs;
use pinfold_terminal::{Failure, REJECTED, output};

mod text;

/// Everything there is to say about a pod.
#[derive(Serialize)]
struct Explanation {
    namespace: String,
    pod: String,
    decider: String,
    /// Where it is, if it has a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
    /// What its scheduler last said, if it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
    /// The nodes that would take it now, best first; for a running pod as if it were not there.
    fits: Vec<Candidate>,
    /// Why the others would not.
    rejections: Vec<Reason>,
    /// What would let it in, if it waits and no node takes it.
    changes: Vec<PodChange>,
    /// Who would have to move to let it in.
    moves: Vec<Plan>,
    /// What comes of the moves that were asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    if_moved: Option<IfMoved>,
    /// What one should know.
    notes: Vec<String>,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    described: String,
    /// The decision of its node's kubelet in words.
    #[serde(skip)]
    because: String,
    /// Nodes that count CPUs: the numbers of CPUs there are stand-ins.
    #[serde(rename = "counted_nodes", skip_serializing_if = "BTreeSet::is_empty")]
    counted: BTreeSet<NodeName>,
}

/// Where a pod is.
#[derive(Clone, Debug, Serialize)]
struct Place {
    node: NodeName,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    numa_nodes: NodeSet,
    /// How that is known.
    known_by: Knowledge,
}

/// How it is known where a pod sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Knowledge {
    /// An annotation of the pod says so.
    Annotation,
    /// Its node's report says so.
    Report,
    /// What its node counts as in use adds up in no other way.
    Counts,
    /// On one of these NUMA nodes; nobody says which.
    OneOf,
    /// It holds nothing of its own.
    Shared,
    /// Nobody says.
    Nobody,
}

/// A node that would take the pod.
#[derive(Clone, Debug, Serialize)]
struct Candidate {
    node: NodeName,
    score: i64,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    numa_nodes: NodeSet,
}

/// What comes of moving certain pods.
#[derive(Clone, Debug, Serialize)]
struct IfMoved {
    pods: Vec<String>,
    /// One for every way in which the pods may sit, where nobody says.
    outcomes: Vec<Outcome>,
}

#[derive(Clone, Debug, Serialize)]
struct Outcome {
    /// Where the pods are taken to sit, if nobody says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assuming: Vec<String>,
    /// Where everybody would go; `None` if the pod still fits nowhere.
    plan: Option<Plan>,
}

pub(crate) fn run(args: &PodArgs) -> Result<ExitCode, Failure> {
    let mut state = ClusterState::open(&args.source, Some(&args.namespace))?;
    let notes = std::mem::take(&mut state.notes);
    let pod = state.pod(&args.namespace, &args.name)?;
    let terms = state.terms(&pod.pod.uid);
    let ask = state.ask(pod)?;
    let mut found = Explanation {
        namespace: pod.meta.namespace.clone(),
        pod: pod.meta.name.clone(),
        decider: state.reading.decider.to_string(),
        place: None,
        scheduler: None,
        fits: Vec::new(),
        rejections: Vec::new(),
        changes: Vec::new(),
        moves: Vec::new(),
        if_moved: None,
        notes,
        name: pod.pod.name.clone(),
        described: state.described(),
        because: String::new(),
        counted: state.counted.clone(),
    };
    if !terms.unchecked_fields.is_empty() {
        let words = terms.unchecked_fields.join(", ");
        let note = format!("not looked at here, though a scheduler does: {words}");
        found.notes.push(note);
    }
    match &pod.node_name {
        Some(node) => bound(&state, pod, node, &ask, &terms, &mut found)?,
        None => waiting(&state, pod, &ask, &terms, args, &mut found)?,
    }
    output::print_as(args.output, &found, || text(&found))?;
    Ok(match found.place.is_none() && found.fits.is_empty() {
        true => ExitCode::from(REJECTED),
        false => ExitCode::SUCCESS,
    })
}

/// Says where a pod is, and what every node would say if it had to be placed again.
fn bound(
    state: &ClusterState,
    pod: &PodObject,
    node: &str,
    ask: &PodRequest,
    terms: &PodConstraints,
    found: &mut Explanation,
) -> Result<(), Failure> {
    let name = NodeName::from(node);
    let sources = state.sources();
    let reading = &state.reading;
    let Some(home) = sources.get(&name) else {
        return Err(Failure::BadInput(format!(
            "pod {} is bound to the node {node}, and there is no such node",
            found.name
        )));
    };
    let seat = home.location_of(pod, reading);
    let (cpus, numa_nodes, known_by) = match &seat {
        PodLocation::Known { cpus, numa, by } => (cpus.clone(), *numa, knowledge(*by)),
        PodLocation::Shared => (CpuSet::new(), NodeSet::EMPTY, Knowledge::Shared),
        PodLocation::OneOf(nodes) => (CpuSet::new(), *nodes, Knowledge::OneOf),
        PodLocation::Unknown => (CpuSet::new(), NodeSet::EMPTY, Knowledge::Nobody),
    };
    found.place = Some(Place {
        node: name.clone(),
        cpus,
        numa_nodes,
        known_by,
    });
    let mut cluster = state.cluster.clone();
    let is_known = matches!(seat, PodLocation::Known { .. } | PodLocation::Shared);
    match home.member_without_pods(&[(pod, seat)], reading) {
        Ok(member) if is_known => {
            cluster.insert(name.clone(), member.value);
        }
        _ => {
            cluster.remove_node(&name);
            found.notes.push(format!(
                "what {name} would say now cannot be told: nobody reports what {} holds there",
                found.name
            ));
        }
    }
    judge(state, &mut cluster, ask, terms, found);
    if let Some(decision) = reasons::decided(&cluster, &name, ask) {
        found.because = words::admission(&found.name, &decision);
    }
    Ok(())
}

fn knowledge(witness: LocationSource) -> Knowledge {
    match witness {
        LocationSource::Pod => Knowledge::Annotation,
        LocationSource::Report => Knowledge::Report,
        LocationSource::Counts => Knowledge::Counts,
    }
}

/// Says what stands in a pod's way, and what would let it in.
fn waiting(
    state: &ClusterState,
    pod: &PodObject,
    ask: &PodRequest,
    terms: &PodConstraints,
    args: &PodArgs,
    found: &mut Explanation,
) -> Result<(), Failure> {
    found.scheduler.clone_from(&terms.scheduler_message);
    let mut cluster = state.cluster.clone();
    judge(state, &mut cluster, ask, terms, found);
    let mut mover = Mover::new(state, ask);
    if !args.if_moved.is_empty() {
        found.if_moved = Some(if_moved(state, &mover, &args.if_moved)?);
    }
    if !found.fits.is_empty() {
        return Ok(());
    }
    for node in state.barred(terms).keys() {
        cluster.remove_node(node);
    }
    found.changes = find_changes(&cluster, &state.reading, &BTreeMap::new(), pod);
    found.moves = mover.smallest(&mut cluster);
    if mover.gave_up() {
        let note = "not all sets of pods that could move were tried";
        found.notes.push(note.to_owned());
    }
    Ok(())
}

/// Asks every node.
fn judge(
    state: &ClusterState,
    cluster: &mut Cluster,
    ask: &PodRequest,
    terms: &PodConstraints,
    found: &mut Explanation,
) {
    let barred = state.barred(terms);
    let ranked = cluster.rank(ask).into_iter();
    let ranked: Vec<(NodeName, i64)> = ranked
        .filter(|ranked| !barred.contains_key(ranked.node))
        .map(|ranked| (ranked.node.clone(), ranked.score))
        .collect();
    for (node, score) in ranked {
        let (cpus, numa_nodes) = match cluster.evaluate(ask, &node) {
            Evaluation::Fits(fit) => (fit.cpus, fit.numa),
            Evaluation::FitsInTotal | Evaluation::Rejected(_) => Default::default(),
        };
        found.fits.push(Candidate {
            node,
            score,
            cpus,
            numa_nodes,
        });
    }
    let mut all: BTreeMap<NodeName, No> = reasons::of(cluster, ask).into_iter().collect();
    let plain = |reason: String| No {
        reason,
        misses: None,
    };
    for (node, why) in &state.unreadable {
        let reason = format!("what it reports cannot be understood: {why}");
        all.insert(node.clone(), plain(reason));
    }
    for (node, bar) in barred {
        all.insert(node, plain(bar.to_string()));
    }
    found.rejections = reasons::grouped(all);
}

/// Plays the moves that were asked about.
fn if_moved(state: &ClusterState, mover: &Mover<'_>, names: &[String]) -> Result<IfMoved, Failure> {
    let mut set: Vec<&PodObject> = Vec::new();
    for name in names {
        let (namespace, pod) = name.split_once('/').unwrap_or(("default", name));
        let pod = state.pod(namespace, pod)?;
        if pod.node_name.is_none() || mover.is_itself(pod) {
            return Err(Failure::BadInput(format!(
                "--if-moved {name}: expected a pod that runs, found one that waits"
            )));
        }
        if set.iter().all(|known| known.pod.uid != pod.pod.uid) {
            set.push(pod);
        }
    }
    let outcomes = mover.if_moved(&set);
    let several = outcomes.len() > 1;
    let outcome = |(seated, plan): (Vec<(&PodObject, PodLocation)>, Option<Plan>)| Outcome {
        assuming: match several {
            false => Vec::new(),
            true => seated
                .iter()
                .filter_map(|(pod, seat)| match seat {
                    PodLocation::Known { numa, .. } => {
                        Some(format!("{} is on NUMA node {numa}", pod.pod.name))
                    }
                    _ => None,
                })
                .collect(),
        },
        plan,
    };
    Ok(IfMoved {
        pods: set.iter().map(|pod| pod.pod.name.clone()).collect(),
        outcomes: outcomes.into_iter().map(outcome).collect(),
    })
}
