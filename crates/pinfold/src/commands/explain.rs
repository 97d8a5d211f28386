//! `pinfold explain`: why one node admits or rejects a pod, and what would let it fit.

use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::decision::Decision;
use pinfold_core::device::NoPreference;
use pinfold_core::exclusive_cpus::{self, ContainerCpus, CpuReasons};
use pinfold_core::ledger::Ledger;
use pinfold_core::name::ResourceName;
use pinfold_core::pod::Pod;
use pinfold_core::remedy::{self, Effort, Remedies};
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest};
use pinfold_render::remote_memory::{self, RemoteMemory};
use pinfold_render::text::paragraph;
use pinfold_render::{cpu_reasons, explain};
use serde::Serialize;

use crate::admission::{self, NotSimulated, OutsideRejection, RejectedBy};
use crate::args::ExplainArgs;
use crate::as_pinfold::{AsPinfold, PodOutcome};
use crate::exit::{Failure, REJECTED};
use crate::progress::Activity;
use crate::starting_state::StartedNode;
use crate::{input, output};

pub(crate) mod cluster;

/// An answer about one pod as JSON and YAML.
#[derive(Serialize)]
pub(crate) struct PodAnswer<'a, T> {
    /// The answer.
    #[serde(flatten)]
    pub(crate) found: &'a T,
    /// Why kube-scheduler or the kubelet's predicates reject the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rejection: Option<&'a OutsideRejection>,
    /// Whether Pinfold would decide otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) as_pinfold: Option<&'a AsPinfold>,
}

/// The answer about a pod on one node as JSON and YAML.
#[derive(Serialize)]
struct NodeAnswer<'a> {
    /// What the managers decide, and the changes with which the pod would be admitted.
    #[serde(flatten)]
    found: &'a Remedies,
    /// Why kube-scheduler or the kubelet's predicates reject the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejection: Option<&'a OutsideRejection>,
    /// Why its containers have exclusive or shared CPUs.
    cpus: &'a CpuReasons,
    /// Memory that is remote to the CPUs of its container, if the pod is admitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remote_memory: Vec<RemoteMemory>,
    /// Extended resources that the kubelet ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<ResourceName>,
    /// What is not simulated about the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_simulated: Vec<NotSimulated>,
    /// Whether Pinfold would decide otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_pinfold: Option<&'a AsPinfold>,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    output::print_rejected(args.output, explain(args))
}

fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    if args.cluster.is_cluster(args.node.decider.decider) {
        return cluster::run(args);
    }
    let opened = args.start.open(&args.node)?;
    let StartedNode { ledger, sums, .. } = opened.started(&args.start, args.bound)?;
    let object = input::first_object(&args.pod)?;
    let request = AdmissionRequest::of(&object);
    let (name, pod) = (object.pod.name.clone(), Arc::new(object.pod));
    let activity = Activity::on_stderr("trying changes that would fit");
    let mut found = remedy::find(&ledger, &pod, &mut NoPreference, Effort::default())
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    drop(activity);
    admission::remedies::retain_fitting(&mut found, &pod, &request, &sums, args.bound);
    let unschedulable = admission::schedule(&sums, &request, args.bound).err();
    let rejection =
        unschedulable.or_else(|| predicates(&ledger, &sums, &pod, &request, &found.decision));
    let as_pinfold = match &rejection {
        None => {
            let kubelet = PodOutcome::of(&found.decision);
            let started = opened.started_as_pinfold(&args.start, args.bound);
            started.and_then(|started| compare(&name, &pod, kubelet, started.ledger))
        }
        Some(_) => None,
    };
    let mut not_simulated = admission::not_simulated(&sums, [(name.as_str(), &request)]);
    if opened.start.is_directory() {
        not_simulated.push(NotSimulated::of_state_files());
    }
    let rules = &opened.node.rules;
    let cpus = exclusive_cpus::reasons(&pod, rules.has_exclusive_cpus(), rules.pod_level());
    let answer = NodeAnswer {
        found: &found,
        cpus: &cpus,
        remote_memory: match (&rejection, found.decision.assignment()) {
            (None, Some(assignment)) => remote_memory::of(opened.node.machine(), assignment),
            _ => Vec::new(),
        },
        ignored: match rejection.is_none() && found.decision.is_admitted() {
            true => sums.unlisted(&request),
            false => Vec::new(),
        },
        not_simulated,
        rejection: rejection.as_ref(),
        as_pinfold: as_pinfold.as_ref(),
    };
    let check = |container: &ContainerCpus| {
        let changed = exclusive_cpus::with_changes(&pod, &container.change);
        let admission = ledger.clone().admit(&Arc::new(changed), &mut NoPreference);
        Some(admission.ok()?.decision.is_admitted())
    };
    output::print_as(args.output, &answer, || {
        node_text(
            &name,
            &answer,
            &cpu_reasons::text(&cpus, output::width(), check),
        )
    })?;
    Ok(match rejection.is_none() && found.decision.is_admitted() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

/// Asks the kubelet's predicates about a pod that the managers admit.
pub(crate) fn predicates(
    ledger: &Ledger,
    sums: &AdmissionNode,
    pod: &Arc<Pod>,
    request: &AdmissionRequest,
    decision: &Decision,
) -> Option<OutsideRejection> {
    if !decision.is_admitted() {
        return None;
    }
    let mut with_pod = ledger.clone();
    with_pod.admit(pod, &mut NoPreference).ok()?;
    let allocated = admission::allocated(&with_pod, decision);
    let rejection = sums.predicates(request, &allocated).err()?;
    Some(rejection.into())
}

/// Compares the kubelet's decision about a pod with that of Pinfold's agent, which has the same running pods in its
/// ledger.
pub(crate) fn compare(
    name: &str,
    pod: &Arc<Pod>,
    kubelet: PodOutcome,
    mut ledger: Ledger,
) -> Option<AsPinfold> {
    let admission = ledger.admit(pod, &mut NoPreference).ok()?;
    let pinfold = PodOutcome::of(&admission.decision);
    Some(AsPinfold::compare([(name, kubelet)], [(name, pinfold)]))
}

/// The answer about a pod on one node as text.
fn node_text(name: &str, answer: &NodeAnswer<'_>, cpu_reasons: &str) -> String {
    let mut all = String::new();
    if let Some(rejection) = answer.rejection {
        all.push_str(&rejection_text(name, rejection));
        if !answer.found.decision.is_admitted() {
            all.push_str("\nBound to this node all the same:\n\n");
        }
    }
    if answer.rejection.is_none() || !answer.found.decision.is_admitted() {
        all.push_str(&text(name, answer.found));
    }
    all.push_str(&remote_memory::text(&answer.remote_memory, output::width()));
    all.push_str(cpu_reasons);
    if !answer.ignored.is_empty() {
        let ignored = admission::ignored_text(&answer.ignored);
        let line = ignored.trim_start_matches("; ");
        all.push_str(&paragraph("  ", line, 2, output::width()));
    }
    all.push_str(&admission::not_simulated_text(&answer.not_simulated));
    all.extend(answer.as_pinfold.map(AsPinfold::text));
    all
}

/// The rejection by kube-scheduler or the kubelet's predicates as text.
pub(crate) fn rejection_text(name: &str, rejection: &OutsideRejection) -> String {
    let head = match rejection.by {
        RejectedBy::KubeScheduler => format!("Pod {name} stays Pending:"),
        RejectedBy::Kubelet => format!("Pod {name} is rejected, {}:", rejection.reason),
    };
    let line = match rejection.details.is_empty() {
        true => rejection.message.clone(),
        false => format!("{} ({})", rejection.message, rejection.details),
    };
    let width = output::width();
    paragraph("", &head, 2, width) + &paragraph("  ", &line, 2, width)
}

/// The answer as text.
pub(crate) fn text(name: &str, found: &Remedies) -> String {
    match found.decision.is_admitted() {
        true => explain::admission(name, &found.decision, output::width()),
        false => explain::rejection(name, &found.decision, Some(found), output::width()),
    }
}
