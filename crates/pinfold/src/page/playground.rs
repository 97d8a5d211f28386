//! [`Playground`]: pods on a described machine, and the reason of each.

use std::sync::Arc;

use pinfold_core::fidelity::KubeletVersion;
use pinfold_core::pod::Pod;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::TopologyScope;
use pinfold_hardware::presets::PRESETS;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::PodObject;
use pinfold_page::{ApiRequest, ApiResponse, PageApi};
use serde::Serialize;
use serde_json::json;

use super::examples;
use super::explanation;
use super::findings::{Finding, Findings, Part};
use super::question::{Question, QuestionPods};
use crate::admission::NodeAdmission;
use crate::cluster::ClusterFiles;
use crate::commands::simulate::SimulationReport;
use crate::commands::simulate::cluster::ClusterSimulationReport;
use crate::exit::Failure;
use crate::node::{NodeFiles, SimulatedNode};
use crate::simulation::{SimulationPlan, SimulationStep};

/// The playground; it has no state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Playground;

impl PageApi for Playground {
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        let answer = match request.path {
            "info" => Ok(info()),
            "simulate" => Question::read(request.body).and_then(|question| simulate(&question)),
            "explain" => explanation::answer(request.body),
            _ => return ApiResponse::not_found(),
        };
        answer.unwrap_or_else(|findings| findings.response())
    }
}

/// What the page offers: everything that a menu lists.
fn info() -> ApiResponse {
    // The default is the first one, versions of the kubelet to compare it with are the last ones.
    let versions = KubeletVersion::known().filter(|version| *version != KubeletVersion::DEFAULT);
    let deciders = Decider::ALL
        .into_iter()
        .chain(versions.map(Decider::Kubelet));
    let presets = PRESETS.iter();
    ApiResponse::json(&json!({
        "mode": "playground",
        "version": env!("CARGO_PKG_VERSION"),
        "picture_style": pinfold_render::svg::style_sheet(),
        "deciders": deciders.map(|one| json!({"name": one.name(), "title": one.description()})).collect::<Vec<_>>(),
        "presets": presets.map(|one| json!({"name": one.name, "title": one.title()})).collect::<Vec<_>>(),
        "policies": TopologyPolicy::ALL.map(TopologyPolicy::name),
        "scopes": [TopologyScope::Container.name(), TopologyScope::Pod.name()],
        "examples": examples::all(),
    }))
}

/// The answer about all pods.
#[derive(Serialize)]
struct SimulationAnswer<T> {
    /// What `pinfold simulate -o json` prints.
    simulation: T,
    /// Who decides and the policies, in one line.
    described: String,
    /// One picture for each node.
    pictures: Vec<String>,
    /// Everything that is worth a remark.
    warnings: Vec<Finding>,
    /// All pods of the files, for the order of arrival.
    pods: Vec<String>,
}

/// Simulates the steps of a question.
fn simulate(question: &Question) -> Result<ApiResponse, Findings> {
    let decider = question.decider()?;
    let files = question.node()?;
    let QuestionPods {
        mut objects,
        warnings,
    } = question.pods()?;
    let pods = objects.iter().map(|object| object.pod.name.clone());
    let pods = pods.collect();
    if !matches!(decider, Decider::Kubelet(_) | Decider::Pinfold) {
        let files = ClusterFiles::of_one(files);
        let steps = question.steps(&objects)?;
        let read_steps = |_: &[PodObject]| Ok(steps);
        let found = ClusterSimulationReport::quietly(
            &files,
            decider,
            &mut objects,
            question.bound,
            read_steps,
        );
        let (simulation, pictures) = found.map_err(whole)?;
        return Ok(ApiResponse::json(&SimulationAnswer {
            simulation,
            described: format!("as {decider}"),
            pictures,
            warnings,
            pods,
        }));
    }
    let (node, pinfold, config) = nodes(&files, decider)?;
    let plan = PodPlan::new(question, &node, objects)?;
    let simulation = plan.simulation_plan();
    let run = simulation.run_first_on(&node, usize::MAX).map_err(whole)?;
    let report = SimulationReport::of(&node, pinfold.as_ref(), &simulation, &run);
    let picture = report.draw(&node, files.machine_name());
    Ok(ApiResponse::json(&SimulationAnswer {
        simulation: report,
        described: node.described(),
        pictures: vec![picture],
        warnings: warnings.into_iter().chain(config).collect(),
        pods,
    }))
}

/// The node, the same node under Pinfold's agent if a kubelet decides, and the warnings about its configuration.
pub(super) fn nodes(
    files: &NodeFiles,
    decider: Decider,
) -> Result<(SimulatedNode, Option<SimulatedNode>, Vec<Finding>), Findings> {
    let warnings = std::cell::RefCell::new(Vec::new());
    let node = files.node_with(decider, |_, found| {
        let found = found.iter().map(|one| Finding::of(Part::Config, one));
        warnings.borrow_mut().extend(found);
    });
    let node = node.map_err(|failure| Findings::failure(Part::Config, failure))?;
    let pinfold = decider.is_kubelet().then(|| files.as_pinfold()).flatten();
    Ok((node, pinfold, warnings.into_inner()))
}

/// A failure that no part of the question explains alone.
pub(super) fn whole(failure: Failure) -> Findings {
    Findings::failure(Part::Question, failure)
}

/// The pods and steps of a question, ready to be taken on a node.
pub(super) struct PodPlan {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) requests: Arc<[AdmissionRequest]>,
    pub(super) steps: Vec<SimulationStep>,
    admission: NodeAdmission,
}

impl PodPlan {
    pub(super) fn new(
        question: &Question,
        node: &SimulatedNode,
        objects: Vec<PodObject>,
    ) -> Result<Self, Findings> {
        let steps = question.steps(&objects)?;
        let requests: Arc<[AdmissionRequest]> = objects.iter().map(AdmissionRequest::of).collect();
        Ok(Self {
            admission: NodeAdmission::new(node, requests.clone(), question.bound),
            pods: objects.into_iter().map(|one| Arc::new(one.pod)).collect(),
            requests,
            steps,
        })
    }

    pub(super) fn simulation_plan(&self) -> SimulationPlan<'_> {
        SimulationPlan {
            admission: Some(self.admission.clone()),
            ..SimulationPlan::new(&self.pods, &self.steps)
        }
    }
}
