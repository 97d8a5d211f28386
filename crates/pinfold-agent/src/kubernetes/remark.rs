//! [`Remark`]: what the link to the API server has to say, for the log; and [`Counts`], for the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::discriminant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_apiserver::ApiError;

/// What failures to follow the pods are noted under.
pub(super) const PODS: &str = "pods";

/// Something that a person may want to read in the log. Never holds a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The pods of this node were listed.
    PodsKnown {
        /// How many there are.
        pods: usize,
    },
    /// News about pods do not come in at the moment.
    PodsBehind {
        /// Why.
        error: ApiError,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// What failed works again.
    Recovered {
        /// `pods`, or such as `numatopologies.nodeinfo.volcano.sh`.
        what: String,
    },
    /// A pod that makes no sense was passed over.
    PodUnreadable {
        /// `namespace/name`.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There are more pods than are kept; the others are unknown here.
    TooManyPods {
        /// How many are kept.
        limit: usize,
    },
    /// An object was written.
    Published {
        /// Such as `numatopologies.nodeinfo.volcano.sh`.
        resource: String,
        /// The journal's number that it is of.
        generation: u64,
    },
    /// The cluster does not know the kind of an object, or no version of it that we write.
    NotServed {
        /// Such as `numatopologies.nodeinfo.volcano.sh`.
        resource: String,
    },
    /// An object is not up to date.
    NotPublished {
        /// Such as `numatopologies.nodeinfo.volcano.sh`.
        resource: String,
        /// Why.
        error: ApiError,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// An event was not taken by the server.
    EventFailed {
        /// Why.
        error: ApiError,
    },
    /// A defect ended a part of the link.
    Ended {
        /// What it did.
        what: &'static str,
    },
    /// Events were lost.
    EventsDropped {
        /// How many.
        events: u64,
    },
}

impl Remark {
    /// Whether somebody should look at it.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        !matches!(
            self,
            Remark::PodsKnown { .. } | Remark::Published { .. } | Remark::Recovered { .. }
        )
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |error: &ApiError| match error.code() {
            Some(401) => "; is the token still valid?",
            Some(403) => "; apply deploy/agent/rbac.yaml",
            _ => "",
        };
        match self {
            Remark::PodsKnown { pods } => write!(f, "{pods} pods are bound to this node"),
            Remark::PodsBehind { error, retry_in } => {
                let (hint, wait) = (hint(error), retry_in.as_secs_f32());
                write!(f, "no news about pods: {error}{hint}; again in {wait:.1} s")
            }
            Remark::Recovered { what } => write!(f, "{what}: up to date again"),
            Remark::PodUnreadable { name, problem } => {
                write!(f, "pod {name} is passed over: {problem}")
            }
            Remark::TooManyPods { limit } => {
                write!(
                    f,
                    "more than {limit} pods on this node: the others are unknown"
                )
            }
            Remark::Published {
                resource,
                generation,
            } => write!(f, "wrote {resource}, generation {generation}"),
            Remark::NotServed { resource } => write!(
                f,
                "the cluster does not serve {resource}: apply its definition (deploy/crds), or do not publish it"
            ),
            Remark::NotPublished {
                resource,
                error,
                retry_in,
            } => {
                let (hint, wait) = (hint(error), retry_in.as_secs_f32());
                write!(
                    f,
                    "{resource} is out of date: {error}{hint}; again in {wait:.1} s"
                )
            }
            Remark::EventFailed { error } => {
                write!(f, "an event was not taken: {error}{}", hint(error))
            }
            Remark::Ended { what } => write!(
                f,
                "{what} ended by a defect of the agent: restart it, and report this"
            ),
            Remark::EventsDropped { events } => write!(f, "{events} events were dropped"),
        }
    }
}

/// Passes remarks on; a failure that goes on is said once.
#[derive(Clone)]
pub(super) struct Remarks {
    sink: Arc<dyn Fn(Remark) + Send + Sync>,
    /// The last failure about each thing.
    failing: Arc<Mutex<BTreeMap<String, ApiError>>>,
}

impl Remarks {
    pub(super) fn new(sink: impl Fn(Remark) + Send + Sync + 'static) -> Self {
        Self {
            sink: Arc::new(sink),
            failing: Arc::default(),
        }
    }

    /// Something worked; worth a remark only if it did not before.
    pub(super) fn recovered(&self, what: &str) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failing.remove(what).is_some();
        drop(failing);
        if failed {
            let what = what.to_owned();
            (self.sink)(Remark::Recovered { what });
        }
    }

    pub(super) fn say(&self, remark: Remark) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let again = match &remark {
            Remark::PodsBehind { error, .. } => same(&mut failing, PODS, error),
            Remark::NotPublished {
                resource, error, ..
            } => same(&mut failing, resource, error),
            Remark::PodsKnown { .. } => {
                failing.remove(PODS);
                false
            }
            Remark::Published { resource, .. } => {
                failing.remove(resource);
                false
            }
            _ => false,
        };
        drop(failing);
        if !again {
            (self.sink)(remark);
        }
    }
}

/// Whether this failed like this already.
fn same(failing: &mut BTreeMap<String, ApiError>, what: &str, error: &ApiError) -> bool {
    let before = failing.insert(what.to_owned(), error.clone());
    before.is_some_and(|before| {
        discriminant(&before) == discriminant(error) && before.code() == error.code()
    })
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// What was done so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Lists of pods.
    pub lists: Count,
    /// Watches of pods.
    pub watches: Count,
    /// Objects created or changed.
    pub writes: Count,
    /// Looks at an object that found nothing to change.
    pub unchanged: Count,
    /// Events created or raised.
    pub events_sent: Count,
    /// Events lost.
    pub events_dropped: Count,
    /// Requests that failed.
    pub failures: Count,
}
