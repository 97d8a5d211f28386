//! Following the pods of this node: list, then watch from there; when the thread is lost, list again.
//!
//! ```text
//!          ┌────────────────── 410 Gone, or an answer that makes no sense ──────────────┐
//!          ▼                                                                            │
//! list in pages ──► replace all ──► watch from that version ──► put, forget, bookmark ──┤
//!          ▲                                  ▲                                         │
//!          └── wait ◄── failure               └───── end, silence, lost connection ─────┘
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pinfold_core::name::PodUid;
use pinfold_kube::pod::PodObject;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::api::{Api, ApiError, PAGE, escaped};
use super::backoff::Backoff;
use super::pods::{self, MAX_PODS, PodSpecs};
use super::remark::{Counts, PODS, Remark, Remarks};

/// How long the server keeps a watch open.
const WATCH_SECONDS: u32 = 290;
/// A server says at least where it is about once a minute; longer silence is a lost connection.
const SILENCE: Duration = Duration::from_secs(100);
/// A watch that ends sooner counts as a failure, so that nobody asks in circles.
const SHORT: Duration = Duration::from_secs(1);

/// Follows the pods for ever.
pub(super) struct Follower {
    pub(super) api: Api,
    pub(super) node: String,
    pub(super) pods: PodSpecs,
    pub(super) backoff: Backoff,
    pub(super) remarks: Remarks,
    pub(super) counts: Arc<Counts>,
}

/// How a watch ended.
enum End {
    /// Go on from here.
    Resume(String),
    /// The history that we wanted is gone.
    Relist,
}

impl Follower {
    pub(super) async fn run(mut self) {
        let mut from: Option<String> = None;
        loop {
            let begun = Instant::now();
            let outcome = match from.take() {
                None => self.list().await.map(End::Resume),
                Some(version) => self.watch(version, &mut from).await,
            };
            match outcome {
                Ok(End::Relist) => from = None,
                Ok(End::Resume(version)) => {
                    from = Some(version);
                    continue;
                }
                Err(error) => {
                    let retry_in = self.backoff.next();
                    self.counts.failures.add(1);
                    self.remarks.say(Remark::PodsBehind { error, retry_in });
                    sleep(retry_in).await;
                    continue;
                }
            }
            if begun.elapsed() < SHORT {
                sleep(self.backoff.next()).await;
            }
        }
    }

    fn path(&self, query: &str) -> String {
        let selector = escaped(&format!("spec.nodeName={}", self.node));
        format!("/api/v1/pods?fieldSelector={selector}&{query}")
    }

    /// All pods, page by page; the version they are of.
    async fn list(&mut self) -> Result<String, ApiError> {
        let mut found: HashMap<PodUid, Arc<PodObject>> = HashMap::new();
        let mut token = String::new();
        let mut too_many = false;
        self.counts.lists.add(1);
        loop {
            let path = self.path(&format!("limit={PAGE}&continue={}", escaped(&token)));
            let page = self.api.get(&path).await;
            let mut page = match page {
                // The rest of this list is gone; the next one starts from the beginning.
                Err(error) if error.code() == Some(410) && !token.is_empty() => {
                    token.clear();
                    found.clear();
                    sleep(self.backoff.next()).await;
                    continue;
                }
                page => page?,
            };
            let garbage = |expected| ApiError::Garbage {
                path: path.clone(),
                expected,
            };
            let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) else {
                return Err(garbage("a list of pods"));
            };
            for item in items {
                let Some((uid, pod)) = self.read(item) else {
                    continue;
                };
                match found.len() < MAX_PODS {
                    true => drop(found.insert(uid, Arc::new(pod))),
                    false => too_many = true,
                }
            }
            let meta = &page["metadata"];
            match meta["continue"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                _ => {
                    let version = meta["resourceVersion"].as_str();
                    let version = version.ok_or_else(|| garbage("a list with a version"))?;
                    self.backoff.reset();
                    let pods = found.len();
                    self.pods.replace(found);
                    if too_many {
                        self.remarks.say(Remark::TooManyPods { limit: MAX_PODS });
                    }
                    self.remarks.say(Remark::PodsKnown { pods });
                    return Ok(version.to_owned());
                }
            }
        }
    }

    /// Changes since a version. `reached` is where to go on if this fails in the middle.
    async fn watch(
        &mut self,
        version: String,
        reached: &mut Option<String>,
    ) -> Result<End, ApiError> {
        let begun = Instant::now();
        let path = self.path(&format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            escaped(&version)
        ));
        *reached = Some(version);
        self.counts.watches.add(1);
        let mut lines = match self.api.lines(&path).await {
            Ok(lines) => lines,
            Err(error) if error.code() == Some(410) => return Ok(End::Relist),
            // The server does not like what we ask for: begin again rather than insist.
            Err(error @ ApiError::Refused { .. }) => {
                *reached = None;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        while let Some(line) = lines.next(SILENCE).await? {
            let garbage = || ApiError::Garbage {
                path: path.clone(),
                expected: "an event of a watch",
            };
            let event: Result<Value, _> = serde_json::from_slice(&line);
            let Ok(mut event) = event else {
                *reached = None;
                return Err(garbage());
            };
            let object = event.get_mut("object").map(Value::take).unwrap_or_default();
            let at = object["metadata"]["resourceVersion"].as_str();
            let at = at.map(str::to_owned);
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => {
                    if let Some((uid, pod)) = self.read(object)
                        && !self.pods.put(uid, pod)
                    {
                        self.remarks.say(Remark::TooManyPods { limit: MAX_PODS });
                    }
                }
                Some("DELETED") => {
                    if let Some(uid) = pods::uid(&object) {
                        self.pods.forget(&uid);
                    }
                }
                Some("BOOKMARK") => {}
                Some("ERROR") if object["code"] == 410 => return Ok(End::Relist),
                Some("ERROR") => {
                    *reached = None;
                    return Err(ApiError::Refused {
                        method: "GET",
                        path,
                        code: object["code"]
                            .as_u64()
                            .and_then(|code| code.try_into().ok())
                            .unwrap_or(0),
                        message: super::api::shortened(
                            object["message"].as_str().unwrap_or_default(),
                            512,
                        ),
                    });
                }
                _ => {
                    *reached = None;
                    return Err(garbage());
                }
            }
            if let Some(at) = at {
                *reached = Some(at);
            }
            self.works();
        }
        match reached.take() {
            Some(version) if begun.elapsed() >= SHORT => {
                self.works();
                Ok(End::Resume(version))
            }
            version => {
                *reached = version;
                Err(ApiError::Unreachable(
                    "it ended the watch at once".to_owned(),
                ))
            }
        }
    }

    fn works(&mut self) {
        self.backoff.reset();
        self.remarks.recovered(PODS);
    }

    /// A pod with the id that the runtime knows it by. One that cannot be read is reported and passed over.
    fn read(&self, pod: Value) -> Option<(PodUid, PodObject)> {
        let name = pods::full_name(&pod);
        let uid = pods::uid(&pod);
        match pods::read(pod) {
            Ok(mut pod) => {
                let uid = uid?;
                pod.pod.uid.clone_from(&uid);
                Some((uid, pod))
            }
            Err(problem) => {
                self.remarks.say(Remark::PodUnreadable { name, problem });
                None
            }
        }
    }
}
