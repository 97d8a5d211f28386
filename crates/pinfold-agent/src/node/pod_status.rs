//! [`PodStatus`]: whether a pod still runs according to the API server, which knows of pods that ended while the agent was
//! down and of pods whose sandbox is being made anew.

use std::fmt;
use std::sync::Arc;

use pinfold_kube::pod::{PodIdentity, PodObject};

/// The state of a pod according to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStatus {
    /// There is no API server.
    Unknown,
    /// The pods have not been listed yet.
    NotListed,
    /// The pod exists and has not ended: it keeps its resources while its sandbox is made anew.
    Active,
    /// The pod succeeded or failed.
    Terminated,
    /// The API server has no such pod: it was deleted, or it is a static pod whose mirror pod was not created yet.
    Absent,
}

/// Source of the state of pods.
pub trait PodStatusSource: fmt::Debug + Send + Sync {
    /// The state of a pod.
    fn status(&self, pod: &PodIdentity) -> PodStatus;

    /// The spec of a pod, if it has arrived.
    fn spec(&self, pod: &PodIdentity) -> Option<Arc<PodObject>>;
}

/// The source of a node without an API server.
#[derive(Clone, Copy, Debug)]
pub struct NoPodStatus;

impl PodStatusSource for NoPodStatus {
    fn status(&self, _: &PodIdentity) -> PodStatus {
        PodStatus::Unknown
    }

    fn spec(&self, _: &PodIdentity) -> Option<Arc<PodObject>> {
        None
    }
}
