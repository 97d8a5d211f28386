//! [`NodeStatus`]: keeps the condition `PinfoldReady` of the Node, and removes the Node's startup taint.
//!
//! The condition is patched when its status, reason or message changes, and at a heartbeat. The taint is removed when the
//! agent is ready for the first time; at every heartbeat the agent checks that the Node was not registered with it again.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::events::rfc3339;
use pinfold_apiserver::{ApiClient, ApiError, percent_encode};
use pinfold_journal::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::sync_events::{SyncEvent, SyncEventLog};
use super::{SyncCounters, Timing};

/// Type of the condition.
pub const CONDITION: &str = "PinfoldReady";

/// Whether the agent does its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The status of the condition.
    pub ready: bool,
    /// The reason in CamelCase.
    pub reason: &'static str,
    /// The problems, or what the agent does.
    pub message: String,
}

/// What the agent writes to its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatusConfig {
    /// Whether the agent keeps the condition.
    pub condition: bool,
    /// The taint that the agent removes when it is ready.
    pub startup_taint: Option<Taint>,
}

impl NodeStatusConfig {
    pub(super) fn is_empty(&self) -> bool {
        !self.condition && self.startup_taint.is_none()
    }
}

/// Key and effect of a taint, written `KEY:EFFECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The key, such as `pinfold.dev/agent-not-ready`.
    pub key: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, self.effect)
    }
}

impl FromStr for Taint {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (key, effect) = text.split_once(':').ok_or(())?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let is_key = !key.is_empty() && key.len() <= 253 + 1 + 63 && key.chars().all(plain);
        let is_effect = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
        match is_key && is_effect {
            true => Ok(Self {
                key: key.to_owned(),
                effect: effect.to_owned(),
            }),
            false => Err(()),
        }
    }
}

/// The readiness to write to the Node. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    shared: Arc<SharedStatus>,
}

#[derive(Debug, Default)]
struct SharedStatus {
    status: Mutex<StatusPair>,
    /// Wakes the task that writes.
    changed: Notify,
    written: Condvar,
}

#[derive(Debug, Default)]
struct StatusPair {
    wanted: Option<Readiness>,
    written: Option<Readiness>,
}

impl NodeStatus {
    /// Sets the readiness. Never waits for the server.
    pub fn set(&self, readiness: Readiness) {
        let mut status = self.lock();
        if status.wanted.as_ref() != Some(&readiness) {
            status.wanted = Some(readiness);
            drop(status);
            self.shared.changed.notify_one();
        }
    }

    /// Waits until the last readiness is written to the Node; at most this long.
    pub fn wait_written(&self, timeout: Duration) {
        let is_pending = |status: &mut StatusPair| status.wanted != status.written;
        let status = self.lock();
        // The result is the same guard after a timeout, which is no error here.
        let _ = self
            .shared
            .written
            .wait_timeout_while(status, timeout, is_pending);
    }

    fn lock(&self) -> MutexGuard<'_, StatusPair> {
        let status = self.shared.status.lock();
        status.unwrap_or_else(PoisonError::into_inner)
    }

    fn set_written(&self, readiness: Readiness) {
        self.lock().written = Some(readiness);
        self.shared.written.notify_all();
    }
}

/// The task that writes to the Node.
pub(super) struct NodeStatusLoop {
    pub(super) api: ApiClient,
    pub(super) node: String,
    pub(super) config: NodeStatusConfig,
    pub(super) status: NodeStatus,
    pub(super) timing: Timing,
    pub(super) log: SyncEventLog,
    pub(super) counts: Arc<SyncCounters>,
}

/// The name of these requests in the log.
const RESOURCE: &str = "nodes/status";

impl NodeStatusLoop {
    pub(super) async fn run(self) {
        let mut backoff = self.timing.retry_policy().backoff();
        // The status and the time of the last transition, as the Node has it.
        let mut transition: Option<(bool, String)> = None;
        let mut heartbeat_at = Instant::now();
        loop {
            let started = Instant::now();
            let (wanted, is_written) = {
                let status = self.status.lock();
                let is_written = status.wanted == status.written;
                (status.wanted.clone(), is_written)
            };
            let Some(wanted) = wanted else {
                self.status.shared.changed.notified().await;
                continue;
            };
            if is_written && started < heartbeat_at {
                let _ = timeout_at(heartbeat_at, self.status.shared.changed.notified()).await;
                continue;
            }
            match self.write(&wanted, &mut transition).await {
                Ok(()) => {
                    backoff.reset();
                    heartbeat_at = started + self.timing.heartbeat;
                    self.log.recovered(RESOURCE);
                    self.status.set_written(wanted);
                    sleep_until(started + self.timing.interval).await;
                }
                Err(error) => {
                    self.counts.failures.add(1);
                    transition = None;
                    let retry_in = backoff.next();
                    self.log.log(SyncEvent::PublishFailed {
                        resource: RESOURCE.to_owned(),
                        error,
                        retry_in,
                    });
                    sleep(retry_in).await;
                }
            }
        }
    }

    async fn write(
        &self,
        wanted: &Readiness,
        transition: &mut Option<(bool, String)>,
    ) -> Result<(), ApiError> {
        let path = format!("/api/v1/nodes/{}", percent_encode(&self.node));
        if self.config.condition {
            if transition.is_none() {
                *transition = last_transition(&self.api.get(&path).await?);
            }
            self.write_condition(&path, wanted, transition).await?;
        }
        if let Some(taint) = self.config.startup_taint.as_ref().filter(|_| wanted.ready)
            && let Some(patch) = without_taint(&self.api.get(&path).await?, taint)
        {
            self.api.merge_patch(&path, &patch).await?;
            let taint = taint.to_string();
            self.log.log(SyncEvent::TaintRemoved { taint });
        }
        Ok(())
    }

    async fn write_condition(
        &self,
        path: &str,
        wanted: &Readiness,
        transition: &mut Option<(bool, String)>,
    ) -> Result<(), ApiError> {
        let now = rfc3339(Timestamp::now());
        let since = match transition {
            Some((ready, since)) if *ready == wanted.ready => since.clone(),
            _ => now.clone(),
        };
        let status = if wanted.ready { "True" } else { "False" };
        let patch = json!({ "status": { "conditions": [{
            "type": CONDITION,
            "status": status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": since,
        }] } });
        let path = format!("{path}/status");
        self.api.strategic_merge_patch(&path, &patch).await?;
        *transition = Some((wanted.ready, since));
        Ok(())
    }
}

/// Status and time of the last transition of the condition that the Node has.
fn last_transition(node: &Value) -> Option<(bool, String)> {
    let conditions = node["status"]["conditions"].as_array()?;
    let own = conditions.iter().find(|one| one["type"] == CONDITION)?;
    let since = own["lastTransitionTime"].as_str()?;
    Some((own["status"] == "True", since.to_owned()))
}

/// The patch that removes a taint from a Node; `None` if the Node does not have it. A change of the Node in between makes
/// the patch fail, because it has all other taints.
fn without_taint(node: &Value, taint: &Taint) -> Option<Value> {
    let taints = node["spec"]["taints"].as_array()?;
    let is_it = |one: &Value| one["key"] == *taint.key && one["effect"] == *taint.effect;
    let others: Vec<&Value> = taints.iter().filter(|one| !is_it(one)).collect();
    (others.len() < taints.len()).then(|| {
        json!({
            "metadata": { "resourceVersion": node["metadata"]["resourceVersion"] },
            "spec": { "taints": others },
        })
    })
}
