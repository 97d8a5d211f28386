//! [`Asked`]: what is kept of a pod, and how it is read from the API server's JSON.

use std::sync::Arc;

use pinfold_apiserver::object;
use pinfold_core::cluster::PodRequest;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::koordinator::ledger::Allocation;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::pod::Pod;
use pinfold_core::qos::QosClass;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use pinfold_kube::manifest::Document;
use pinfold_kube::pod::{self, PodObject};
use pinfold_kube::volcano;
use serde_json::Value;

/// The kubelet's name for a pod that it has from a file; the API server has another one for its mirror.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is kept of a pod.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What it asks of a node, by every dialect. Its uid is the one its node knows it by.
    pub ask: PodRequest,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The version of the object.
    pub version: String,
    /// Its priority.
    pub priority: i32,
    /// What it requests, overhead included.
    pub requests: Amounts,
    /// What Koordinator's annotation says that it has.
    pub held: Option<Allocation>,
    /// Why Koordinator's words on it cannot be understood.
    pub misspelt: Option<String>,
    /// Whether any NUMA rule could have a say about it.
    pub needs: bool,
    /// The whole object, for pods whose Koordinator annotations may have to be completed.
    pub object: Option<Arc<PodObject>>,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No kubelet has taken it yet.
    Waiting,
    /// A kubelet has taken it.
    Started,
    /// Its containers have ended for good.
    Over,
}

/// A pod as the API server has it.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it asks for.
    pub asked: Arc<Asked>,
    /// Where it is bound to.
    pub node: Option<NodeName>,
    /// Where it is in its life.
    pub phase: Phase,
}

impl Asked {
    /// The id by which it is known here and on its node.
    #[must_use]
    pub fn uid(&self) -> &PodUid {
        self.ask.uid()
    }

    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether it asks for the same as another version of it.
    #[must_use]
    pub fn is_like(&self, other: &Asked) -> bool {
        self.ask == other.ask && self.requests == other.requests && self.held == other.held
    }
}

/// A pod that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pod {name}: {problem}")]
pub struct BadPod {
    /// `namespace/name`, as far as it says.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The id by which a pod is known on its node.
#[must_use]
pub fn uid(pod: &Value) -> Option<PodUid> {
    let meta = pod.get("metadata")?;
    let mirrored = meta.get("annotations").and_then(|all| all.get(MIRROR));
    let uid = mirrored.or_else(|| meta.get("uid"))?.as_str()?;
    (!uid.is_empty()).then(|| uid.into())
}

/// Reads a pod.
///
/// # Errors
/// If it is no pod that a kubelet could run.
pub fn read(mut pod: Value) -> Result<Found, BadPod> {
    let name = object::full_name(&pod);
    let bad = |problem: &str| BadPod {
        name: name.clone(),
        problem: problem.to_owned(),
    };
    let uid = uid(&pod).ok_or_else(|| bad("expected an object with a uid"))?;
    let version = pod["metadata"]["resourceVersion"].as_str();
    let version = version.unwrap_or_default().to_owned();
    let phase = phase(&pod["status"]);
    if let Some(members) = pod.as_object_mut() {
        members.remove("status");
    }
    object::prune(&mut pod);
    let read = Document::of_json(&name, "v1", "Pod", &pod);
    let read = read.and_then(|document| pod::pods_of(&document));
    let read = read.map_err(|findings| bad(&findings.to_string()))?;
    let mut object = (read.value.into_iter().next()).ok_or_else(|| bad("expected a pod"))?;
    object.pod.uid = uid;
    let node = object.node_name.as_deref().filter(|name| !name.is_empty());
    let node = node.map(NodeName::from);
    let is_bound = node.is_some();
    Ok(Found {
        asked: Arc::new(asked(object, version, is_bound)),
        node,
        phase,
    })
}

fn phase(status: &Value) -> Phase {
    match status["phase"].as_str() {
        Some("Succeeded" | "Failed") => Phase::Over,
        Some("Running") => Phase::Started,
        // The kubelet writes it when it has let the pod in.
        _ if status["startTime"].is_string() => Phase::Started,
        _ => Phase::Waiting,
    }
}

fn asked(object: PodObject, version: String, is_bound: bool) -> Asked {
    const FIDELITY: Fidelity = Fidelity::Sound;
    let mut ask = PodRequest::new(Arc::new(object.pod.clone()));
    let mut held = None;
    let mut misspelt = None;
    match koordinator::demand(&object, FIDELITY) {
        Ok(read) => {
            match ResourceStatus::read(&object, FIDELITY) {
                Ok(status) => held = status.value.map(|status| status.allocation(&read.value)),
                Err(findings) => misspelt = Some(findings.to_string()),
            }
            ask = ask.with_koordinator(read.value);
        }
        Err(findings) => misspelt = Some(findings.to_string()),
    }
    if let Some(policy) = volcano::task(&object, FIDELITY).value.policy {
        ask = ask.with_volcano_policy(policy);
    }
    let meta = &object.meta;
    let koordinates = meta.labels.contains_key(keys::QOS_CLASS)
        || [keys::RESOURCE_SPEC, keys::NUMA_SPEC]
            .iter()
            .any(|key| meta.annotations.contains_key(*key));
    let needs = koordinates
        || ask.volcano().policy().is_some()
        || QosClass::of(&object.pod) == QosClass::Guaranteed
        || asks_for_devices(&object.pod);
    Asked {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        priority: object.priority.unwrap_or(0),
        requests: Amounts::of(&koordinator::effective_requests(&object)),
        object: (koordinates && !is_bound).then(|| Arc::new(object)),
        ask,
        version,
        held,
        misspelt,
        needs,
    }
}

fn asks_for_devices(pod: &Pod) -> bool {
    let lists = pod.all_containers().map(|container| &container.limits);
    let mut names = lists.flat_map(|list| list.keys());
    names.any(|name| name.as_str().contains('/'))
}
