//! [`SyncEvent`]: log events of the API server client; [`SyncCounters`]: its counters.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::discriminant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_apiserver::ApiError;

use super::other_writers::{self, OtherWriterPolicy};
use pinfold_kube::api_object::InvalidObject;

/// Name of the pod watch in the table of current failures.
pub(super) const PODS: &str = "pods";
/// Name of the watch of the Node in that table.
pub(super) const NODE: &str = "nodes";

/// A log event of the API server client. It never contains a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncEvent {
    /// The pods of this node were listed.
    PodsListed {
        /// Number of pods.
        pods: usize,
    },
    /// The list or watch of pods failed; the pod cache is stale until it succeeds.
    PodWatchFailed {
        /// The error of the request.
        error: ApiError,
        /// Backoff before the next attempt.
        retry_in: Duration,
    },
    /// The list or watch of the Node failed; its labels and annotations may be stale until it succeeds.
    NodeWatchFailed {
        /// The error of the request.
        error: ApiError,
        /// Backoff before the next attempt.
        retry_in: Duration,
    },
    /// A request succeeded after failures.
    Recovered {
        /// `pods`, `nodes`, or the resource of a published object.
        what: String,
    },
    /// An invalid pod was skipped.
    InvalidPod(InvalidObject),
    /// The node has more pods than the cache holds.
    PodLimitExceeded {
        /// Capacity of the cache.
        limit: usize,
    },
    /// An object was written.
    Published {
        /// The resource, such as `numatopologies.nodeinfo.volcano.sh`.
        resource: String,
        /// Journal generation of the object.
        generation: u64,
    },
    /// The API server does not serve the resource of an object in any version that the agent writes.
    NotServed {
        /// The resource, such as `numatopologies.nodeinfo.volcano.sh`.
        resource: String,
    },
    /// An object could not be written.
    PublishFailed {
        /// The resource, such as `numatopologies.nodeinfo.volcano.sh`.
        resource: String,
        /// The error of the request.
        error: ApiError,
        /// Backoff before the next attempt.
        retry_in: Duration,
    },
    /// Another program wrote the agent's fields of an object.
    OtherWriter {
        /// The resource, such as `noderesourcetopologies.topology.node.k8s.io`.
        resource: String,
        /// The program's name in `managedFields`.
        writer: String,
        /// What the agent does about it.
        policy: OtherWriterPolicy,
    },
    /// The startup taint was removed from the Node.
    TaintRemoved {
        /// The taint, as the configuration has it.
        taint: String,
    },
    /// The API server rejected a Kubernetes event.
    EventRejected {
        /// The error of the request.
        error: ApiError,
    },
    /// A task of the client panicked.
    TaskPanicked {
        /// The function of the task.
        task: &'static str,
    },
    /// Kubernetes events were dropped because the queue was full.
    EventsDropped {
        /// Number of events.
        events: u64,
    },
}

impl fmt::Display for SyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |error: &ApiError| match error.code() {
            Some(401) => "; is the token still valid?",
            Some(403) => "; apply deploy/agent/rbac.yaml",
            _ => "",
        };
        match self {
            SyncEvent::PodsListed { pods } => write!(f, "{pods} pods are bound to this node"),
            SyncEvent::PodWatchFailed { error, retry_in } => {
                let (hint, wait) = (hint(error), retry_in.as_secs_f32());
                write!(f, "pod watch failed: {error}{hint}; retry in {wait:.1} s")
            }
            SyncEvent::NodeWatchFailed { error, retry_in } => {
                let (hint, wait) = (hint(error), retry_in.as_secs_f32());
                write!(
                    f,
                    "watch of the Node failed: {error}{hint}; retry in {wait:.1} s"
                )
            }
            SyncEvent::Recovered { what } => write!(f, "{what}: up to date again"),
            SyncEvent::InvalidPod(invalid) => write!(f, "skipped an invalid pod: {invalid}"),
            SyncEvent::PodLimitExceeded { limit } => {
                write!(
                    f,
                    "more than {limit} pods on this node: the rest is ignored"
                )
            }
            SyncEvent::Published {
                resource,
                generation,
            } => write!(f, "wrote {resource}, generation {generation}"),
            SyncEvent::NotServed { resource } => write!(
                f,
                "the API server does not serve {resource}: apply its definition (deploy/crds), or remove it from kubernetes.publish"
            ),
            SyncEvent::PublishFailed {
                resource,
                error,
                retry_in,
            } => {
                let (hint, wait) = (hint(error), retry_in.as_secs_f32());
                write!(
                    f,
                    "cannot write {resource}: {error}{hint}; retry in {wait:.1} s"
                )
            }
            SyncEvent::OtherWriter {
                resource,
                writer,
                policy,
            } => f.write_str(&other_writers::describe(resource, writer, *policy)),
            SyncEvent::TaintRemoved { taint } => {
                write!(
                    f,
                    "removed the taint {taint} from the Node: the agent is ready"
                )
            }
            SyncEvent::EventRejected { error } => {
                write!(f, "the server rejected an event: {error}{}", hint(error))
            }
            SyncEvent::TaskPanicked { task } => write!(
                f,
                "{task} stopped because of a defect of the agent: restart the agent, and report this"
            ),
            SyncEvent::EventsDropped { events } => write!(f, "{events} events were dropped"),
        }
    }
}

/// Passes events to the log. A failure that repeats is logged once.
#[derive(Clone)]
pub(super) struct SyncEventLog {
    sink: Arc<dyn Fn(SyncEvent) + Send + Sync>,
    /// The last error of each request that fails now.
    failing: Arc<Mutex<BTreeMap<String, ApiError>>>,
}

impl SyncEventLog {
    pub(super) fn new(sink: impl Fn(SyncEvent) + Send + Sync + 'static) -> Self {
        Self {
            sink: Arc::new(sink),
            failing: Arc::default(),
        }
    }

    /// Records that a request succeeded, and logs it if it failed before.
    pub(super) fn recovered(&self, what: &str) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failing.remove(what).is_some();
        drop(failing);
        if failed {
            let what = what.to_owned();
            (self.sink)(SyncEvent::Recovered { what });
        }
    }

    /// Logs an event, unless it repeats the last failure of the same request.
    pub(super) fn log(&self, event: SyncEvent) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let repeated = match &event {
            SyncEvent::PodWatchFailed { error, .. } => same(&mut failing, PODS, error),
            SyncEvent::NodeWatchFailed { error, .. } => same(&mut failing, NODE, error),
            SyncEvent::PublishFailed {
                resource, error, ..
            } => same(&mut failing, resource, error),
            SyncEvent::PodsListed { .. } => {
                failing.remove(PODS);
                false
            }
            SyncEvent::Published { resource, .. } => {
                failing.remove(resource);
                false
            }
            _ => false,
        };
        drop(failing);
        if !repeated {
            (self.sink)(event);
        }
    }
}

/// Records a failure. Returns whether the last one was of the same kind.
fn same(failing: &mut BTreeMap<String, ApiError>, what: &str, error: &ApiError) -> bool {
    let before = failing.insert(what.to_owned(), error.clone());
    before.is_some_and(|before| {
        discriminant(&before) == discriminant(error) && before.code() == error.code()
    })
}

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct SyncCounter(AtomicU64);

impl SyncCounter {
    /// The current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counters of the API server client.
#[derive(Debug, Default)]
pub struct SyncCounters {
    /// Pod lists that were started.
    pub lists: SyncCounter,
    /// Pod watches that were started.
    pub watches: SyncCounter,
    /// Objects created or patched.
    pub writes: SyncCounter,
    /// Checks of an object that needed no write.
    pub unchanged: SyncCounter,
    /// Objects that were left to another writer.
    pub yielded: SyncCounter,
    /// Kubernetes events created or updated.
    pub events_sent: SyncCounter,
    /// Kubernetes events dropped.
    pub events_dropped: SyncCounter,
    /// Failed requests.
    pub failures: SyncCounter,
}
