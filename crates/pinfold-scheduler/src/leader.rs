//! Which of several extenders answers: the one that holds a Lease.
//!
//! A decision is only safe on a picture that holds every decision before it, and the news of a binding take a moment to
//! reach the other extenders. So one answers at a time. Nobody's clock is compared with another's: a lease is over
//! when it has not changed for its duration by our own monotonic clock, and its holder stops answering well before
//! that, by its own. Bindings end in less time than lies between the two.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pinfold_apiserver::{Api, ApiError, escaped};
use serde_json::{Value, json};
use tokio::time::sleep;

/// How long a lease holds that nobody renews.
pub const LEASE: Duration = Duration::from_secs(15);
/// How long its holder answers after it last renewed it.
pub const RENEW_WITHIN: Duration = Duration::from_secs(9);
/// How often it is tried.
const EVERY: Duration = Duration::from_secs(2);
/// The longest that a request of a leader may take.
pub const REQUEST: Duration = Duration::from_secs(4);

/// Whether this one answers.
#[derive(Debug, Default)]
pub struct Standing(Mutex<Held>);

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    since: Option<Instant>,
    until: Option<Instant>,
}

impl Standing {
    /// Alone, and so for ever.
    #[must_use]
    pub fn alone(now: Instant) -> Self {
        Self(Mutex::new(Held {
            since: Some(now),
            until: None,
        }))
    }

    /// Since when this one is the leader; `None` if it is not.
    #[must_use]
    pub fn leads_since(&self, now: Instant) -> Option<Instant> {
        let held = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.since
            .filter(|_| held.until.is_none_or(|until| now < until))
    }

    /// The lease was renewed by a request that began at `begun`.
    pub fn renewed(&self, begun: Instant, now: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = held.since.is_some() && held.until.is_none_or(|until| now < until);
        if !leads {
            held.since = Some(now);
        }
        held.until = begun.checked_add(RENEW_WITHIN);
    }

    /// Another one holds the lease.
    pub fn lost(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Held::default();
    }
}

/// A lease as it was last seen, and when it became so.
struct Seen {
    version: String,
    at: Instant,
}

/// Tries to hold a lease.
pub struct Elector {
    api: Api,
    path: String,
    name: String,
    namespace: String,
    identity: String,
    seen: Option<Seen>,
}

impl Elector {
    /// For the lease of that name.
    #[must_use]
    pub fn new(api: Api, namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            path: format!(
                "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
                escaped(namespace)
            ),
            api,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            seen: None,
        }
    }

    /// Tries for ever. `tell` hears of what fails.
    pub async fn run(mut self, standing: &Standing, tell: impl Fn(&ApiError)) {
        loop {
            let begun = Instant::now();
            match self.attempt(begun).await {
                Ok(true) => standing.renewed(begun, Instant::now()),
                Ok(false) => standing.lost(),
                // Whoever holds it goes on for as long as it may.
                Err(error) => tell(&error),
            }
            sleep(EVERY).await;
        }
    }

    /// One attempt: whether the lease is ours now.
    async fn attempt(&mut self, now: Instant) -> Result<bool, ApiError> {
        let own = format!("{}/{}", self.path, escaped(&self.name));
        let lease = match self.api.get(&own).await {
            Ok(lease) => lease,
            Err(error) if error.code() == Some(404) => {
                let made = self.api.post(&self.path, &self.lease(None, 0)).await;
                return settled(made);
            }
            Err(error) => return Err(error),
        };
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let version = lease["metadata"]["resourceVersion"].as_str();
        let version = version.unwrap_or_default();
        if self
            .seen
            .as_ref()
            .is_none_or(|seen| seen.version != version)
        {
            self.seen = Some(Seen {
                version: version.to_owned(),
                at: now,
            });
        }
        let over = self
            .seen
            .as_ref()
            .is_some_and(|seen| now.saturating_duration_since(seen.at) >= LEASE);
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0);
        let transitions = match holder == self.identity {
            true => transitions,
            false if holder.is_empty() || over => transitions.saturating_add(1),
            false => return Ok(false),
        };
        let put = self.lease(Some(&lease), transitions);
        settled(self.api.put(&own, &put).await)
    }

    /// Gives the lease back, so that nobody has to wait for its end.
    pub async fn resign(api: &Api, namespace: &str, name: &str, identity: &str) {
        let elector = Self::new(api.clone(), namespace, name, identity);
        let own = format!("{}/{}", elector.path, escaped(name));
        // Whoever cannot give it back lets it end.
        if let Ok(mut lease) = api.get(&own).await
            && lease["spec"]["holderIdentity"].as_str() == Some(identity)
        {
            lease["spec"]["holderIdentity"] = "".into();
            let _ = api.put(&own, &lease).await;
        }
    }

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
                "leaseDurationSeconds": LEASE.as_secs(),
                "acquireTime": acquired,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        })
    }
}

/// Whether a write was ours; somebody else's being quicker is an answer too.
fn settled(written: Result<Value, ApiError>) -> Result<bool, ApiError> {
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
    fn a_leader_that_cannot_renew_stops_before_another_can_begin() {
        let standing = Standing::default();
        let begun = Instant::now();
        assert_eq!(standing.leads_since(begun), None);
        let later = begun + Duration::from_secs(1);
        standing.renewed(begun, later);
        assert_eq!(standing.leads_since(later), Some(later));
        let end = begun + RENEW_WITHIN;
        assert_eq!(standing.leads_since(end), None);
        // The last binding that it began has ended before the lease has.
        assert!(RENEW_WITHIN + REQUEST < LEASE);
        standing.renewed(end, end);
        assert_eq!(standing.leads_since(end), Some(end), "a new term begins");
        standing.lost();
        assert_eq!(standing.leads_since(end), None);
    }

    #[test]
    fn who_renews_in_time_leads_since_the_beginning() {
        let standing = Standing::default();
        let begun = Instant::now();
        standing.renewed(begun, begun);
        let later = begun + Duration::from_secs(5);
        standing.renewed(later, later);
        assert_eq!(standing.leads_since(later), Some(begun));
        let alone = Standing::alone(begun);
        let for_ever = begun + Duration::from_secs(1 << 30);
        assert_eq!(alone.leads_since(for_ever), Some(begun));
    }
}
