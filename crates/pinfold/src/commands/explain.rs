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
pub(crate) struct NodeAnswer {
    /// What the managers decide, and the changes with which the pod would be admitted.
    #[serde(flatten)]
    pub(crate) found: Remedies,
    /// Why kube-scheduler or the kubelet's predicates reject the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rejection: Option<OutsideRejection>,
    /// Why its containers have exclusive or shared CPUs.
    cpus: CpuReasons,
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
    as_pinfold: Option<AsPinfold>,
}

/// A pod that is asked about, and the node with the pods before it.
pub(crate) struct PodQuestion<'a> {
    /// The pod's name as it is printed.
    pub(crate) name: &'a str,
    /// The pod.
    pub(crate) pod: &'a Arc<Pod>,
    /// Its requests and constraints.
    pub(crate) request: &'a AdmissionRequest,
    /// The managers with the pods that run.
    pub(crate) ledger: &'a Ledger,
    /// The sums of the pods that run.
    pub(crate) sums: &'a AdmissionNode,
    /// Whether the pod is bound, so that kube-scheduler is not asked.
    pub(crate) bound: bool,
}

impl PodQuestion<'_> {
    /// The answer. `pinfold` is the ledger of Pinfold's agent with the same pods, asked if the pod is not rejected by
    /// kube-scheduler or the kubelet's predicates.
    pub(crate) fn answer(
        &self,
        pinfold: impl FnOnce() -> Option<Ledger>,
    ) -> Result<NodeAnswer, Failure> {
        let (pod, request, sums) = (self.pod, self.request, self.sums);
        let mut found = remedy::find(self.ledger, pod, &mut NoPreference, Effort::default())
            .map_err(|error| Failure::BadInput(error.to_string()))?;
        admission::remedies::retain_fitting(&mut found, pod, request, sums, self.bound);
        let unschedulable = admission::schedule(sums, request, self.bound).err();
        let rejection =
            unschedulable.or_else(|| predicates(self.ledger, sums, pod, request, &found.decision));
        let as_pinfold = match &rejection {
            None => {
                let kubelet = PodOutcome::of(&found.decision);
                pinfold().and_then(|ledger| compare(self.name, pod, kubelet, ledger))
            }
            Some(_) => None,
        };
        let rules = self.ledger.rules();
        let assignment = found.decision.assignment().filter(|_| rejection.is_none());
        Ok(NodeAnswer {
            cpus: exclusive_cpus::reasons(pod, rules.has_exclusive_cpus(), rules.pod_level()),
            remote_memory: match assignment {
                Some(assignment) => remote_memory::of(rules.machine(), assignment),
                None => Vec::new(),
            },
            ignored: match assignment {
                Some(_) => sums.unlisted(request),
                None => Vec::new(),
            },
            not_simulated: admission::not_simulated(sums, [(self.name, request)]),
            rejection,
            as_pinfold,
            found,
        })
    }

    /// The answer as text.
    pub(crate) fn text(&self, answer: &NodeAnswer, width: usize) -> String {
        let check = |container: &ContainerCpus| {
            let changed = exclusive_cpus::with_changes(self.pod, &container.change);
            let admission = self
                .ledger
                .clone()
                .admit(&Arc::new(changed), &mut NoPreference);
            Some(admission.ok()?.decision.is_admitted())
        };
        node_text(
            self.name,
            answer,
            &cpu_reasons::text(&answer.cpus, width, check),
        )
    }
}

impl NodeAnswer {
    /// Whether the pod would run.
    pub(crate) fn is_admitted(&self) -> bool {
        self.rejection.is_none() && self.found.decision.is_admitted()
    }
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
    let question = PodQuestion {
        name: &name,
        pod: &pod,
        request: &request,
        ledger: &ledger,
        sums: &sums,
        bound: args.bound,
    };
    let activity = Activity::on_stderr("trying changes that would fit");
    let mut answer = question.answer(|| {
        let started = opened.started_as_pinfold(&args.start, args.bound);
        started.map(|started| started.ledger)
    })?;
    drop(activity);
    if opened.start.is_directory() {
        answer.not_simulated.push(NotSimulated::of_state_files());
    }
    output::print_as(args.output, &answer, || {
        question.text(&answer, output::width())
    })?;
    Ok(match answer.is_admitted() {
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
fn node_text(name: &str, answer: &NodeAnswer, cpu_reasons: &str) -> String {
    let mut all = String::new();
    if let Some(rejection) = &answer.rejection {
        all.push_str(&rejection_text(name, rejection));
        if !answer.found.decision.is_admitted() {
            all.push_str("\nBound to this node all the same:\n\n");
        }
    }
    if answer.rejection.is_none() || !answer.found.decision.is_admitted() {
        all.push_str(&text(name, &answer.found));
    }
    all.push_str(&remote_memory::text(&answer.remote_memory, output::width()));
    all.push_str(cpu_reasons);
    if !answer.ignored.is_empty() {
        let ignored = admission::ignored_text(&answer.ignored);
        let line = ignored.trim_start_matches("; ");
        all.push_str(&paragraph("  ", line, 2, output::width()));
    }
    all.push_str(&admission::not_simulated_text(&answer.not_simulated));
    all.extend(answer.as_pinfold.as_ref().map(AsPinfold::text));
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
