//! Bind: reserves the pod in the cache, then sends the Binding to the API server.
//!
//! A Binding has the pod's uid and resource version as preconditions, and annotations that the API server writes onto
//! the pod in the same transaction. So no annotation is ever left on a pod that was not bound.
//!
//! | response of the API server | reservation |
//! |---|---|
//! | accepted | stays until a watch event shows the binding |
//! | rejected | is released |
//! | none | stays until a GET shows whether the pod is bound; if that fails too, until the timeout, and the same binding may be retried |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use pinfold_apiserver::{ApiClient, ApiError, percent_encode};
use pinfold_cluster::{ClusterNode, Dialect, PlacementDetail};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::api_object::InvalidObject;
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use serde_json::{Value, json};

use super::wire::{BindingArgs, BindingResult};
use super::{BadRequest, Extender};
use crate::cache::pod_info::{self, PodInfo};
use crate::cache::{Cache, Reserved};

/// Attempts to bind a pod that was changed concurrently.
const ATTEMPTS: usize = 3;

/// Why a pod was not bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The pod was deleted, or replaced by another one of the same name.
    #[error("pod {0} has another uid")]
    NoPod(String),
    /// The pod cannot be parsed.
    #[error(transparent)]
    InvalidPod(#[from] InvalidObject),
    /// The node does not admit the pod any more.
    #[error("node {node} rejects the pod now: {reason}")]
    NotReserved {
        /// The node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The binding request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl BindError {
    /// The label value in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            BindError::NoPod(_) => "no-pod",
            BindError::InvalidPod(_) => "invalid-pod",
            BindError::NotReserved { .. } => "not-reserved",
            BindError::Api(ApiError::Rejected { .. }) => "rejected",
            BindError::Api(_) => "unreachable",
        }
    }
}

/// The outcome of a bind request.
#[derive(Debug)]
pub struct BindOutcome {
    /// The response as JSON.
    pub response: Vec<u8>,
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The node.
    pub node: String,
    /// The error, if the pod was not bound.
    pub error: Option<BindError>,
}

impl Extender {
    /// Handles a bind request.
    ///
    /// # Errors
    /// If the request is malformed.
    pub async fn bind(&self, body: &[u8], api: &ApiClient) -> Result<BindOutcome, BadRequest> {
        let args: BindingArgs = serde_json::from_slice(body)
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let error = self.bind_pod(&args, api).await.err();
        let result = BindingResult {
            error: error.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        Ok(BindOutcome {
            response: serde_json::to_vec(&result).unwrap_or_default(),
            pod: format!("{}/{}", args.pod_namespace, args.pod_name),
            node: args.node,
            error,
        })
    }

    async fn bind_pod(&self, args: &BindingArgs, api: &ApiClient) -> Result<(), BindError> {
        let uid = PodUid::from(args.pod_uid.as_str());
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            percent_encode(&args.pod_namespace),
            percent_encode(&args.pod_name)
        );
        let mut info = match self.known(&uid, None) {
            Some(info) => info,
            None => get_pod(api, &path, &uid).await?,
        };
        for attempt in 1.. {
            let error = match self.try_bind(&info, args, &path, api).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let changed = matches!(&error, BindError::Api(error) if error.code() == Some(409));
            if !changed || attempt >= ATTEMPTS {
                return Err(error);
            }
            let now = get_pod(api, &path, &uid).await?;
            // The same version would be rejected again.
            if now.version == info.version {
                return Err(error);
            }
            info = now;
        }
        Err(BindError::NoPod(info.full_name()))
    }

    async fn try_bind(
        &self,
        info: &Arc<PodInfo>,
        args: &BindingArgs,
        path: &str,
        api: &ApiClient,
    ) -> Result<(), BindError> {
        let node = NodeName::from(args.node.as_str());
        let binding = {
            let mut cache = self.cache();
            let reserved = cache.reserve(info, &node, Instant::now());
            let reserved = reserved.map_err(|error| BindError::NotReserved {
                node: args.node.clone(),
                reason: error.to_string(),
            })?;
            let annotations = annotations(&cache, info, &node, &reserved);
            json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {
                    "name": info.name,
                    "namespace": info.namespace,
                    "uid": info.uid().as_str(),
                    "resourceVersion": info.version,
                    "annotations": annotations,
                },
                "target": { "apiVersion": "v1", "kind": "Node", "name": args.node },
            })
        };
        let sent = api.post(&format!("{path}/binding"), &binding).await;
        let Err(error) = sent else {
            self.cache().mark_bound(info.uid());
            return Ok(());
        };
        let bound = match error.code() {
            // With a server error the pod may have been bound.
            Some(code) if code < 500 => Some(false),
            _ => is_bound(api, path, info.uid(), &args.node).await,
        };
        match bound {
            Some(true) => {
                self.cache().mark_bound(info.uid());
                Ok(())
            }
            Some(false) => {
                self.cache().release(info.uid(), Instant::now());
                Err(error.into())
            }
            None => {
                self.cache().mark_unconfirmed(info.uid());
                Err(error.into())
            }
        }
    }
}

/// Reads the pod from the API server.
async fn get_pod(api: &ApiClient, path: &str, uid: &PodUid) -> Result<Arc<PodInfo>, BindError> {
    let json = api.get_bytes(path).await?;
    let pod = pod_info::parse(&String::from_utf8_lossy(&json))?;
    match pod.info.uid() == uid {
        true => Ok(pod.info),
        false => Err(BindError::NoPod(pod.info.full_name())),
    }
}

/// Whether the pod is bound to the node; `None` if the API server does not respond.
async fn is_bound(api: &ApiClient, path: &str, uid: &PodUid, node: &str) -> Option<bool> {
    match api.get(path).await {
        Ok(pod) => {
            let same = pod["metadata"]["uid"].as_str() == Some(uid.as_str());
            Some(same && pod["spec"]["nodeName"].as_str() == Some(node))
        }
        Err(error) if error.code() == Some(404) => Some(false),
        Err(_) => None,
    }
}

/// The annotations that the Binding writes onto the pod: Koordinator's allocation.
fn annotations(
    cache: &Cache,
    info: &PodInfo,
    node: &NodeName,
    reserved: &Reserved,
) -> BTreeMap<&'static str, Value> {
    let mut annotations = BTreeMap::new();
    let PlacementDetail::Koordinator { status, spec } = &reserved.placement.detail else {
        return annotations;
    };
    let member = cache.cluster.node(node).map(ClusterNode::dialect);
    if let (Some(status), Some(Dialect::Koordinator { node, .. })) = (status, member)
        && let Some(report) = &node.report
    {
        let status = ResourceStatus::of(status, &report.topology, Fidelity::Sound);
        annotations.insert(keys::RESOURCE_STATUS, status.to_json().into());
        if let Some(generation) = &reserved.generation {
            annotations.insert(GENERATION, generation.as_str().into());
        }
    }
    if let (Some(spec), Some(object)) = (spec, &info.object) {
        let text = koordinator::with_resource_spec(object, spec);
        annotations.insert(keys::RESOURCE_SPEC, text.into());
    }
    annotations
}
