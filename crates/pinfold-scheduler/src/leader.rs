//! Leader election with a Lease: of several extenders only the leader answers requests.
//!
//! A decision is safe only if the cache contains all earlier decisions, and the watch event of a binding reaches the other
//! extenders with a delay. Clocks of different machines are never compared: a lease has expired when it has not changed for
//! its duration by our own monotonic clock, and its holder stops answering well before that by its own clock. The time
//! between the two is longer than a binding request may take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pinfold_apiserver::{ApiClient, ApiError, percent_encode};
use serde_json::{Value, json};
use tokio::time::sleep;

/// A lease that is not renewed for this time has expired.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The holder stops answering this long after it last renewed the lease.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(9);
/// Interval of attempts to acquire or renew the lease.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Timeout of requests of the leader.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// Whether this extender is the leader.
#[derive(Debug, Default)]
pub struct Leadership(Mutex<LeaderTerm>);

#[derive(Clone, Copy, Debug, Default)]
struct LeaderTerm {
    /// When the term began; `None` if there was none.
    since: Option<Instant>,
    /// When the term ends without a renewal; `None` for a permanent leader.
    until: Option<Instant>,
}

impl Leadership {
    /// The leadership of the only extender, without an election.
    #[must_use]
    pub fn permanent(now: Instant) -> Self {
        Self(Mutex::new(LeaderTerm {
            since: Some(now),
            until: None,
        }))
    }

    /// When this extender became the leader; `None` if it is not the leader.
    #[must_use]
    pub fn leader_since(&self, now: Instant) -> Option<Instant> {
        let term = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        term.since
            .filter(|_| term.until.is_none_or(|until| now < until))
    }

    /// Records that a request that began at `start` acquired or renewed the lease.
    pub fn record_renewal(&self, start: Instant, now: Instant) {
        let mut term = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_leader = term.since.is_some() && term.until.is_none_or(|until| now < until);
        if !is_leader {
            term.since = Some(now);
        }
        term.until = start.checked_add(RENEW_DEADLINE);
    }

    /// Ends the term, because another extender holds the lease or this one stops.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = LeaderTerm::default();
    }
}

/// The last observed version of the lease, and when it was first observed.
struct ObservedLease {
    version: String,
    first_seen: Instant,
}

/// Acquires and renews the lease.
pub struct Elector {
    api: ApiClient,
    path: String,
    name: String,
    namespace: String,
    identity: String,
    observed: Option<ObservedLease>,
}

impl Elector {
    /// An elector for the lease `namespace/name`, under the name `identity`.
    #[must_use]
    pub fn new(api: ApiClient, namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            path: format!(
                "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
                percent_encode(namespace)
            ),
            api,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            observed: None,
        }
    }

    /// Acquires and renews the lease until the future is dropped. `on_error` is called for failed requests.
    pub async fn run(mut self, leadership: &Leadership, on_error: impl Fn(&ApiError)) {
        loop {
            let start = Instant::now();
            match self.try_acquire(start).await {
                Ok(true) => leadership.record_renewal(start, Instant::now()),
                Ok(false) => leadership.end(),
                // A leader stays the leader until its renew deadline.
                Err(error) => on_error(&error),
            }
            sleep(RETRY_PERIOD).await;
        }
    }

    /// Tries to acquire or renew the lease. Returns whether this extender holds it now.
    async fn try_acquire(&mut self, now: Instant) -> Result<bool, ApiError> {
        let path = format!("{}/{}", self.path, percent_encode(&self.name));
        let lease = match self.api.get(&path).await {
            Ok(lease) => lease,
            Err(error) if error.code() == Some(404) => {
                let created = self.api.post(&self.path, &self.lease(None, 0)).await;
                return is_written(created);
            }
            Err(error) => return Err(error),
        };
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let version = lease["metadata"]["resourceVersion"].as_str();
        let version = version.unwrap_or_default();
        if self
            .observed
            .as_ref()
            .is_none_or(|observed| observed.version != version)
        {
            self.observed = Some(ObservedLease {
                version: version.to_owned(),
                first_seen: now,
            });
        }
        let expired = self.observed.as_ref().is_some_and(|observed| {
            now.saturating_duration_since(observed.first_seen) >= LEASE_DURATION
        });
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0);
        let transitions = match holder == self.identity {
            true => transitions,
            false if holder.is_empty() || expired => transitions.saturating_add(1),
            false => return Ok(false),
        };
        let new = self.lease(Some(&lease), transitions);
        is_written(self.api.put(&path, &new).await)
    }

    /// Releases the lease, so that another extender need not wait until it expires.
    pub async fn release(api: &ApiClient, namespace: &str, name: &str, identity: &str) {
        let elector = Self::new(api.clone(), namespace, name, identity);
        let path = format!("{}/{}", elector.path, percent_encode(name));
        // If this fails, the lease expires.
        if let Ok(mut lease) = api.get(&path).await
            && lease["spec"]["holderIdentity"].as_str() == Some(identity)
        {
            lease["spec"]["holderIdentity"] = "".into();
            let _ = api.put(&path, &lease).await;
        }
    }

    /// The Lease object held by this extender; `before` is the one that it replaces.
    fn lease(&self, before: Option<&Value>, transitions: i64) -> Value {
        // The API server reads a MicroTime with exactly six digits.
        let now = format!("{:.6}", Timestamp::now());
        let ours = before
            .is_some_and(|lease| lease["spec"]["holderIdentity"].as_str() == Some(&self.identity));
        let acquired = match before {
            Some(lease) if ours => lease["spec"]["acquireTime"].clone(),
            _ => now.clone().into(),
        };
        let mut meta = json!({ "name": self.name, "namespace": self.namespace });
        if let Some(lease) = before {
            meta["resourceVersion"] = lease["metadata"]["resourceVersion"].clone();
        }
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": LEASE_DURATION.as_secs(),
                "acquireTime": acquired,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        })
    }
}

/// Whether a write succeeded; a conflict means that another extender was faster.
fn is_written(written: Result<Value, ApiError>) -> Result<bool, ApiError> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(409) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_cannot_renew_stops_before_the_lease_expires() {
        let leadership = Leadership::default();
        let start = Instant::now();
        assert_eq!(leadership.leader_since(start), None);
        let later = start + Duration::from_secs(1);
        leadership.record_renewal(start, later);
        assert_eq!(leadership.leader_since(later), Some(later));
        let end = start + RENEW_DEADLINE;
        assert_eq!(leadership.leader_since(end), None);
        // The last binding request of a leader times out before its lease expires.
        assert!(RENEW_DEADLINE + REQUEST_TIMEOUT < LEASE_DURATION);
        leadership.record_renewal(end, end);
        assert_eq!(leadership.leader_since(end), Some(end), "a new term begins");
        leadership.end();
        assert_eq!(leadership.leader_since(end), None);
    }

    #[test]
    fn a_term_that_is_renewed_in_time_keeps_its_beginning() {
        let leadership = Leadership::default();
        let start = Instant::now();
        leadership.record_renewal(start, start);
        let later = start + Duration::from_secs(5);
        leadership.record_renewal(later, later);
        assert_eq!(leadership.leader_since(later), Some(start));
        let permanent = Leadership::permanent(start);
        let much_later = start + Duration::from_secs(1 << 30);
        assert_eq!(permanent.leader_since(much_later), Some(start));
    }
}
