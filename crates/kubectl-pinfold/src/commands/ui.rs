//! `kubectl pinfold ui`: the web page of a cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pinfold_cluster::{ClusterNode, Dialect};
use pinfold_kube::decider::Decider;
use pinfold_kube::pod;
use pinfold_page::{ApiRequest, ApiResponse, PageApi};
use pinfold_render::svg;
use pinfold_terminal::{DeciderArg, Failure, output, serving};
use serde_json::{Value, json};

use super::cluster_state::ClusterState;
use super::live::PodName;
use super::top::TopReport;
use super::{capacity, doctor, explain, view};
use crate::args::{ObjectsArgs, SourceArgs, UiArgs};

/// The shortest time between two reads of the cluster, however often the page asks.
const REFRESH: Duration = Duration::from_secs(5);
/// The most pending pods that are listed.
const MOST_PENDING: usize = 1000;

pub(crate) fn run(args: &UiArgs) -> Result<ExitCode, Failure> {
    let page = ClusterPage::open(args.source.clone())?;
    serving::serve(args.listen, args.open, Arc::new(page))?;
    Ok(ExitCode::SUCCESS)
}

/// What the page asks about a cluster.
pub(crate) struct ClusterPage {
    source: SourceArgs,
    /// The cluster as it was read last, and when. One question at a time: the cluster caches evaluations.
    read: Mutex<(Instant, ClusterState)>,
    /// What is wrong with the cluster, and when it was read.
    findings: Mutex<Option<(Instant, Value)>>,
}

impl ClusterPage {
    fn open(source: SourceArgs) -> Result<Self, Failure> {
        let state = ClusterState::open(&source, None)?;
        Ok(Self {
            source,
            read: Mutex::new((Instant::now(), state)),
            findings: Mutex::default(),
        })
    }

    /// The page of a file, as a kubelet of the default version decides.
    pub(crate) fn of_file(file: PathBuf) -> Result<Self, Failure> {
        Self::open(SourceArgs {
            objects: ObjectsArgs {
                kubeconfig: None,
                context: None,
                nodes: vec![file],
            },
            decider: DeciderArg {
                decider: Decider::default(),
            },
            scheduler_config: None,
        })
    }

    /// Reads the cluster again, unless that was just done or it comes from files.
    fn refresh(&self, read: &mut (Instant, ClusterState)) -> Result<(), Failure> {
        if self.source.objects.nodes.is_empty() && read.0.elapsed() >= REFRESH {
            *read = (Instant::now(), ClusterState::open(&self.source, None)?);
        }
        Ok(())
    }

    /// What `kubectl pinfold doctor` finds, and the kubelet's version on each node. It has its own objects, and is read
    /// again when the cluster is.
    fn findings(&self, request: &ApiRequest<'_>) -> Result<Value, Failure> {
        let objects = &self.source.objects;
        if objects.nodes.iter().any(|path| path == Path::new("-")) {
            return Ok(json!({
                "report": {"findings": [], "not_checked": ["standard input can be read only once: kubectl pinfold doctor reads it, too"]},
                "versions": {},
            }));
        }
        let mut found = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |at: &Instant| !objects.nodes.is_empty() || at.elapsed() < REFRESH;
        if let Some((at, known)) = &*found
            && (request.parameter("fresh").is_none() || is_fresh(at))
        {
            return Ok(known.clone());
        }
        let (report, versions) = doctor::report(objects)?;
        let value = json!({"report": report, "versions": versions});
        Ok(found.insert((Instant::now(), value)).1.clone())
    }

    fn question(&self, request: &ApiRequest<'_>) -> Result<Option<ApiResponse>, Failure> {
        if request.path == "findings" {
            return Ok(Some(ApiResponse::json(&self.findings(request)?)));
        }
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if request.path == "cluster" && request.parameter("fresh").is_some() {
            self.refresh(&mut read)?;
        }
        let state = &read.1;
        let parameter = |name| request.parameter(name).unwrap_or_default();
        Ok(Some(match request.path {
            "info" => ApiResponse::json(&json!({
                "mode": "cluster",
                "version": env!("CARGO_PKG_VERSION"),
                "picture_style": svg::style_sheet(),
                "cluster": self.name(),
                "live": self.source.objects.nodes.is_empty(),
            })),
            "cluster" => ApiResponse::json(&cluster(state)),
            "node" => {
                let (seen, report) = view::report(state, &parameter("name"))?;
                let picture = report.draw(&seen);
                ApiResponse::json(&json!({"report": report, "picture": picture}))
            }
            "pod" => {
                let (namespace, name) = (parameter("namespace"), parameter("name"));
                let name = PodName {
                    namespace: &namespace,
                    name: &name,
                };
                let found = explain::explanation(state, name, &[])?;
                ApiResponse::json(&json!({"text": found.text(), "explanation": found}))
            }
            "capacity" => ApiResponse::json(&shape(state, request)?),
            _ => return Ok(None),
        }))
    }

    fn name(&self) -> String {
        let objects = &self.source.objects;
        let files = objects.nodes.iter();
        let name = |file: &PathBuf| {
            let name = file.file_name().unwrap_or(file.as_os_str());
            name.to_string_lossy().into_owned()
        };
        let files: Vec<String> = files.map(name).collect();
        match (&objects.context, files.is_empty()) {
            (_, false) => files.join(", "),
            (Some(context), true) => context.clone(),
            (None, true) => "the current context".to_owned(),
        }
    }
}

impl PageApi for ClusterPage {
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        match self.question(request) {
            Ok(Some(answer)) => answer,
            Ok(None) => ApiResponse::not_found(),
            Err(failure @ Failure::Environment(_)) => ApiResponse::error(502, &failure.to_string()),
            Err(failure) => ApiResponse::error(422, &failure.to_string()),
        }
    }
}

/// All nodes and pending pods.
fn cluster(state: &ClusterState) -> Value {
    let top = TopReport::of(state, None);
    let sources = state.sources();
    let about = |name| {
        let found = sources.get(name)?;
        let rules = state.cluster.node(name).map(ClusterNode::dialect);
        let policy = match rules {
            Some(Dialect::Kubelet(ledger)) => Some(ledger.rules().policy().name()),
            _ => None,
        };
        Some(json!({
            "labels": found.node.meta.labels,
            "policy": policy,
            "unschedulable": found.node.unschedulable,
        }))
    };
    let nodes: Vec<Value> = top
        .nodes
        .iter()
        .map(|node| json!({"usage": node, "about": about(&node.node)}))
        .collect();
    let pending = state.objects.pods.iter();
    let mut pending = pending.filter(|pod| pod.node_name.is_none());
    let listed: Vec<Value> = pending
        .by_ref()
        .take(MOST_PENDING)
        .map(|pod| {
            json!({
                "namespace": pod.meta.namespace,
                "name": pod.meta.name,
                "message": pod.constraints.scheduler_message,
            })
        })
        .collect();
    json!({
        "described": state.described(),
        "nodes": nodes,
        "unreadable": state.unreadable,
        "largest_free": top.largest_free,
        "notes": top.notes,
        "pending": listed,
        "more_pending": pending.count(),
    })
}

/// How many replicas start of a pod shape, which is a pending pod or the body.
fn shape(state: &ClusterState, request: &ApiRequest<'_>) -> Result<Value, Failure> {
    let typed;
    let pod = match (request.parameter("namespace"), request.parameter("name")) {
        (Some(namespace), Some(name)) => state.pod(&namespace, &name)?,
        _ => {
            let read = pod::read_file("pod.yaml", request.body, &[]);
            let read = read.map_err(|findings| Failure::BadInput(findings.to_string()))?;
            let first = read.value.pods.into_iter().next();
            let mut first = first.ok_or_else(|| {
                Failure::BadInput("expected a pod, or a deployment, job or the like".to_owned())
            })?;
            output::drop_default_namespace(&mut first.pod.name);
            typed = first;
            &typed
        }
    };
    let report = capacity::report(state, pod, false)?;
    let text = report.text(pinfold_render::explain::WIDTH);
    Ok(json!({"capacity": report, "text": text}))
}
