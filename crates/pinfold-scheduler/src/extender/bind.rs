//! Bind: the place is checked again and promised, then the API server is told, in one request.
//!
//! A binding carries the pod's id and version as conditions, and annotations that the API server writes onto the pod in
//! the same transaction: the pod is bound and annotated, or nothing has happened. So no annotation is ever left on a
//! pod that was not bound.
//!
//! | the API server | the promise |
//! |---|---|
//! | takes the binding | stands until the node reports the pod |
//! | rejects it | is taken back |
//! | does not answer | stands while the pod is looked at; if nobody knows, until its time is over, and the same binding may be tried again |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use pinfold_apiserver::{Api, ApiError, escaped};
use pinfold_core::cluster::{ClusterNode, Dialect, PlacementDetail};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use serde_json::{Value, json};

use super::wire::{BindingArgs, BindingResult};
use super::{BadRequest, Extender};
use crate::cache::pod::{self, Asked};
use crate::cache::{Cache, Reserved};

/// How often a pod that was changed meanwhile is looked at again.
const ATTEMPTS: usize = 3;

/// Why a pod was not bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBound {
    /// Nobody knows the pod.
    #[error("no pod {0} of that id")]
    NoPod(String),
    /// The pod cannot be read.
    #[error(transparent)]
    BadPod(#[from] pod::BadPod),
    /// The place is not there any more.
    #[error("node {node} does not take the pod any more: {why}")]
    Place {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// The API server did not do it.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl NotBound {
    /// The word for it in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            NotBound::NoPod(_) => "no-pod",
            NotBound::BadPod(_) => "bad-pod",
            NotBound::Place { .. } => "place",
            NotBound::Api(ApiError::Rejected { .. }) => "rejected",
            NotBound::Api(_) => "unreachable",
        }
    }
}

/// What became of a binding.
#[derive(Debug)]
pub struct Bound {
    /// The answer as JSON.
    pub answer: Vec<u8>,
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The node.
    pub node: String,
    /// Why it was not bound.
    pub error: Option<NotBound>,
}

impl Extender {
    /// Answers a request.
    ///
    /// # Errors
    /// If the request makes no sense.
    pub async fn bind(&self, body: &[u8], api: &Api) -> Result<Bound, BadRequest> {
        let args: BindingArgs = serde_json::from_slice(body)
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let error = self.bound(&args, api).await.err();
        let result = BindingResult {
            error: error.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        Ok(Bound {
            answer: serde_json::to_vec(&result).unwrap_or_default(),
            pod: format!("{}/{}", args.pod_namespace, args.pod_name),
            node: args.node,
            error,
        })
    }

    async fn bound(&self, args: &BindingArgs, api: &Api) -> Result<(), NotBound> {
        let uid = PodUid::from(args.pod_uid.as_str());
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            escaped(&args.pod_namespace),
            escaped(&args.pod_name)
        );
        let mut asked = match self.known(&uid, None) {
            Some(asked) => asked,
            None => looked_up(api, &path, &uid).await?,
        };
        for attempt in 1.. {
            let error = match self.try_once(&asked, args, &path, api).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let changed = matches!(&error, NotBound::Api(error) if error.code() == Some(409));
            if !changed || attempt >= ATTEMPTS {
                return Err(error);
            }
            let now = looked_up(api, &path, &uid).await?;
            // The same rejection again would come of the same version.
            if now.version == asked.version {
                return Err(error);
            }
            asked = now;
        }
        Err(NotBound::NoPod(asked.full_name()))
    }

    async fn try_once(
        &self,
        asked: &Arc<Asked>,
        args: &BindingArgs,
        path: &str,
        api: &Api,
    ) -> Result<(), NotBound> {
        let node = NodeName::from(args.node.as_str());
        let binding = {
            let mut cache = self.cache();
            let reserved = cache.reserve(asked, &node, Instant::now());
            let reserved = reserved.map_err(|why| NotBound::Place {
                node: args.node.clone(),
                why: why.to_string(),
            })?;
            let annotations = annotations(&cache, asked, &node, &reserved);
            json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {
                    "name": asked.name,
                    "namespace": asked.namespace,
                    "uid": asked.uid().as_str(),
                    "resourceVersion": asked.version,
                    "annotations": annotations,
                },
                "target": { "apiVersion": "v1", "kind": "Node", "name": args.node },
            })
        };
        let told = api.post(&format!("{path}/binding"), &binding).await;
        let Err(error) = told else {
            self.cache().bound(asked.uid());
            return Ok(());
        };
        let happened = match error.code() {
            // A server that fails in the middle may have done it.
            Some(code) if code < 500 => Some(false),
            _ => is_bound(api, path, asked.uid(), &args.node).await,
        };
        match happened {
            Some(true) => {
                self.cache().bound(asked.uid());
                Ok(())
            }
            Some(false) => {
                self.cache().release(asked.uid(), Instant::now());
                Err(error.into())
            }
            None => {
                self.cache().doubt(asked.uid());
                Err(error.into())
            }
        }
    }
}

/// The pod as the API server has it.
async fn looked_up(api: &Api, path: &str, uid: &PodUid) -> Result<Arc<Asked>, NotBound> {
    let found = pod::read(api.get(path).await?)?;
    match found.asked.uid() == uid {
        true => Ok(found.asked),
        false => Err(NotBound::NoPod(found.asked.full_name())),
    }
}

/// Whether the pod is on that node; `None` if nobody knows.
async fn is_bound(api: &Api, path: &str, uid: &PodUid, node: &str) -> Option<bool> {
    match api.get(path).await {
        Ok(pod) => {
            let same = pod["metadata"]["uid"].as_str() == Some(uid.as_str());
            Some(same && pod["spec"]["nodeName"].as_str() == Some(node))
        }
        Err(error) if error.code() == Some(404) => Some(false),
        Err(_) => None,
    }
}

/// What is written onto the pod with its binding.
fn annotations(
    cache: &Cache,
    asked: &Asked,
    node: &NodeName,
    reserved: &Reserved,
) -> BTreeMap<&'static str, Value> {
    let mut told = BTreeMap::new();
    let PlacementDetail::Koordinator { status, spec } = &reserved.placement.detail else {
        return told;
    };
    let member = cache.cluster.node(node).map(ClusterNode::dialect);
    if let (Some(status), Some(Dialect::Koordinator { node, .. })) = (status, member)
        && let Some(report) = &node.report
    {
        let status = ResourceStatus::of(status, &report.topology, Fidelity::Sound);
        told.insert(keys::RESOURCE_STATUS, status.to_json().into());
        if let Some(generation) = &reserved.generation {
            told.insert(GENERATION, generation.as_str().into());
        }
    }
    if let (Some(spec), Some(object)) = (spec, &asked.object) {
        let text = koordinator::with_resource_spec(object, spec);
        told.insert(keys::RESOURCE_SPEC, text.into());
    }
    told
}
