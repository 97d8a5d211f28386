//! [`EngineServer`]: serves the calls of kube-scheduler's plugin on a unix socket.
//!
//! Calls run one after the other on a thread of their own: they need the cache, which one call at a time can lock, and
//! no other thread has to wake up before kube-scheduler gets an answer.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kubelet_api::unix::PeerLimits;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_daemon::Metrics;
use tokio::sync::Notify;
use tonic::{Code, Request, Response, Status};

use crate::engine::dialect_args::DialectArgs;
use crate::engine::filter::NodeVerdict;
use crate::engine::pre_filter::PreFilterAnswer;
use crate::engine::session::{NoSession, Session};
use crate::engine::wire::{
    ConnectReply, ConnectRequest, EngineCalls, FilterNodeReply, FilterNodeRequest, PreFilterReply,
    PreFilterRequest, RequeuesReply, RequeuesRequest, ReserveReply, ReserveRequest, UnreserveReply,
    UnreserveRequest, VERSION, WireRejection,
};
use crate::engine::{BadRequest, Engine};
use crate::metrics::catalogue;

mod health;
#[cfg(test)]
mod tests;

/// Connections and calls of the plugin: it uses one connection, and one call per thread of kube-scheduler.
const CONNECTIONS: usize = 8;
const CALLS: usize = 256;
/// The most pods of a request: more than a node can have, and more than kube-scheduler binds at a time.
const MAX_PODS: usize = 10_000;
/// How long a new session waits for the list of all pods, and how often it looks for it.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
const LIST_INTERVAL: Duration = Duration::from_millis(20);
/// How long PreFilter waits for the watch events that kube-scheduler has seen already.
const CATCH_UP_WAIT: Duration = Duration::from_millis(200);
/// How long a call for pods to requeue waits for some.
const REQUEUES_WAIT: Duration = Duration::from_secs(20);

/// The limits of connections and calls, for the user that this process has.
#[must_use]
pub fn limits() -> PeerLimits {
    PeerLimits {
        user: rustix::process::geteuid().as_raw(),
        connections: CONNECTIONS,
        calls: CALLS,
    }
}

/// Serves the calls of the plugin.
pub struct EngineServer {
    /// Decides about the calls.
    pub engine: Engine,
    /// The kube-scheduler whose calls are served.
    pub session: Arc<Session>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Makes generations of node names different from those of an engine before.
    instance: u64,
    /// Pods that the plugin has not fetched yet.
    requeues: Mutex<VecDeque<PodUid>>,
    new_requeues: Notify,
    /// The latest answer to a readiness probe, for probes while the cache is locked.
    readiness: Mutex<Vec<String>>,
}

impl EngineServer {
    /// A server of an engine.
    #[must_use]
    pub fn new(engine: Engine, session: Arc<Session>, metrics: Arc<Metrics>) -> Self {
        Self {
            engine,
            session,
            metrics,
            instance: pinfold_apiserver::random(),
            requeues: Mutex::default(),
            new_requeues: Notify::new(),
            readiness: Mutex::new(vec!["nothing listed yet".to_owned()]),
        }
    }

    /// Queues pods for the next call of the plugin that fetches them.
    pub fn requeue(&self, pods: Vec<PodUid>) {
        let mut queue = self.requeues.lock().unwrap_or_else(PoisonError::into_inner);
        queue.extend(pods);
        drop(queue);
        self.new_requeues.notify_one();
    }

    fn take_requeues(&self) -> Vec<String> {
        let mut queue = self.requeues.lock().unwrap_or_else(PoisonError::into_inner);
        let some = queue.len().min(MAX_PODS);
        queue.drain(..some).map(|uid| uid.to_string()).collect()
    }

    /// Fails until all resources were listed, pods since the session started.
    fn check_listed(&self) -> Result<(), Status> {
        let cache = self.engine.cache();
        let mut missing: Vec<&str> = cache.listed().missing();
        let (since, listed) = (self.session.since(), cache.pods_listed_at());
        if missing.is_empty() && since > listed {
            missing.push("pods since kube-scheduler connected");
        }
        match missing.as_slice() {
            [] => Ok(()),
            missing => Err(Status::unavailable(format!(
                "the engine has not listed {} yet",
                missing.join(", ")
            ))),
        }
    }

    /// Runs a call, and measures it.
    fn call<T>(
        &self,
        name: &'static str,
        scheduler: u64,
        run: impl FnOnce() -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let start = Instant::now();
        let result = self.check(scheduler).and_then(|()| run());
        self.measured(name, start, result)
    }

    /// Fails unless the call is from the scheduler of the session, and all resources were listed.
    fn check(&self, scheduler: u64) -> Result<(), Status> {
        self.session.check(scheduler)?;
        self.check_listed()
    }

    fn measured<T>(
        &self,
        name: &'static str,
        start: Instant,
        result: Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let seconds = start.elapsed().as_secs_f64();
        self.metrics.observe(&catalogue::CALLS, &[name], seconds);
        self.counted(name, result).map(Response::new)
    }

    fn counted<T>(&self, name: &'static str, result: Result<T, Status>) -> Result<T, Status> {
        if let Err(status) = &result {
            let code = code_name(status.code());
            self.metrics.count(&catalogue::FAILED_CALLS, &[name, code]);
            if status.code() == Code::InvalidArgument {
                tracing::warn!(call = name, error = status.message(), "bad request");
            }
        }
        result
    }

    fn start_session(&self, request: &ConnectRequest) -> Result<ConnectReply, Status> {
        if request.version != VERSION {
            return Err(Status::failed_precondition(format!(
                "the plugin has protocol version {}, the engine {VERSION}: use both of one release",
                request.version
            )));
        }
        if request.reservations.len() > MAX_PODS {
            return Err(too_many("reservations"));
        }
        let args = DialectArgs::read(request.dialects.as_ref())?;
        let now = Instant::now();
        if self.session.connect(request.scheduler, now) {
            self.metrics.count(&catalogue::SESSIONS, &[]);
            tracing::info!("kube-scheduler connected");
            self.take_requeues();
            self.engine.start_session(now);
        }
        self.engine.cache().set_dialect_args(args, now);
        self.check_listed()?;
        let mut named = BTreeSet::new();
        let mut held = Vec::new();
        for reservation in &request.reservations {
            let pod = reservation.pod.as_ref();
            // A pod that is not known was deleted meanwhile, or is bound and no watch event has shown that yet.
            if let Some(info) = self.engine.reserved_pod(pod)? {
                held.push((info, node_name(&reservation.node)?));
            }
            named.extend(pod.map(|pod| PodUid::from(pod.uid.as_str())));
        }
        self.engine.restore(&named, &held, now);
        Ok(ConnectReply {
            version: VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            checks_all_pods: self.engine.cache().has_koordinator_nodes(),
        })
    }

    /// Waits until the cache has the changes of pods that kube-scheduler has seen.
    async fn catch_up(&self, version: u64, longest: Duration) {
        let mut seen = self.engine.cache().watch_pods_version();
        let arrived = seen.wait_for(|seen| *seen >= version);
        if tokio::time::timeout(longest, arrived).await.is_err() {
            // It may be the version of a bookmark, which not every watch gets: later calls do not wait for it again.
            self.engine.cache().record_pods_version(version);
        }
    }

    /// Evaluates a pod. If no node takes it, or the nominated one does not, and watch events about pods have not arrived
    /// that kube-scheduler has seen, the call has to be repeated after them: a pod that was evicted may still count here,
    /// and kube-scheduler would evict others, or give up the nominated node.
    fn evaluate(&self, request: &PreFilterRequest) -> Result<Evaluated, Status> {
        let start = Instant::now();
        let Some(info) = self.engine.pod_info(request.pod.as_ref())? else {
            if self.engine.cache().pods_version() < request.pods_version {
                return Ok(Evaluated::TooEarly);
            }
            return Ok(Evaluated::Reply(PreFilterReply {
                unknown_pod: true,
                ..PreFilterReply::default()
            }));
        };
        let weights = self.engine.weights();
        let (answer, checks_all_pods) = {
            let mut cache = self.engine.cache();
            let answer = cache.pre_filter(&info, &weights);
            let nominated = request.nominated_node.as_str();
            let is_taken = match nominated {
                "" => !answer.scores.is_empty(),
                name => answer.fitting.took(&name.into()),
            };
            if !is_taken && cache.pods_version() < request.pods_version {
                return Ok(Evaluated::TooEarly);
            }
            (answer, cache.has_koordinator_nodes())
        };
        let PreFilterAnswer {
            fitting,
            scores,
            rejections,
            postponed,
        } = answer;
        for group in &rejections {
            let count = u64::try_from(group.nodes.count()).unwrap_or(u64::MAX);
            let reason = group.class.name();
            self.metrics.add(&catalogue::REJECTIONS, &[reason], count);
        }
        tracing::debug!(pod = info.full_name(), fits = scores.len(), "evaluated");
        let names = &fitting.names;
        let nodes_generation = names.generation.wrapping_add(self.instance);
        let reply = PreFilterReply {
            unknown_pod: false,
            nodes_generation,
            nodes: match nodes_generation == request.nodes_generation {
                true => Vec::new(),
                false => names.names.iter().map(ToString::to_string).collect(),
            },
            fits: fitting.fits.as_bytes().to_vec(),
            scores,
            rejections: rejections
                .into_iter()
                .map(|group| WireRejection {
                    reason: group.reason,
                    kind: group.class.kind().into(),
                    nodes: group.nodes.as_bytes().to_vec(),
                })
                .collect(),
            checks_all_pods,
        };
        self.engine
            .rejected_pods
            .add(info, fitting, postponed, start);
        Ok(Evaluated::Reply(reply))
    }

    fn evaluate_changed(&self, request: &FilterNodeRequest) -> Result<FilterNodeReply, Status> {
        if request.added.len() > MAX_PODS || request.removed.len() > MAX_PODS {
            return Err(too_many("added and removed pods"));
        }
        const UNKNOWN: FilterNodeReply = FilterNodeReply {
            unknown_pod: true,
            rejection: None,
        };
        let Some(info) = self.engine.pod_info(request.pod.as_ref())? else {
            return Ok(UNKNOWN);
        };
        let mut added = Vec::new();
        for pod in &request.added {
            match self.engine.pod_info(Some(pod))? {
                Some(pod) => added.push(pod),
                None => return Ok(UNKNOWN),
            }
        }
        let node = node_name(&request.node)?;
        let removed = request.removed.iter().map(|uid| uid.as_str().into());
        let removed: BTreeSet<PodUid> = removed.collect();
        let cache = self.engine.cache();
        let verdict = cache.filter_changed(&info, &node, &added, &removed, Instant::now());
        if removed.is_empty() && verdict != NodeVerdict::Fits {
            // A nominated pod has priority there: the next change of the node may end that.
            self.engine.rejected_pods.reject(info.uid(), &node);
        }
        Ok(FilterNodeReply {
            unknown_pod: false,
            rejection: match verdict {
                NodeVerdict::Fits => None,
                NodeVerdict::Rejected(class, reason) => Some(WireRejection {
                    reason,
                    kind: class.kind().into(),
                    nodes: Vec::new(),
                }),
            },
        })
    }

    fn reserve_pod(&self, request: &ReserveRequest) -> Result<ReserveReply, Status> {
        let mut reply = ReserveReply::default();
        let Some(info) = self.engine.pod_info(request.pod.as_ref())? else {
            reply.unknown_pod = true;
            return Ok(reply);
        };
        let node = node_name(&request.node)?;
        let result = match self.engine.reserve(&info, &node, Instant::now()) {
            Ok(annotations) => {
                reply.annotations = annotations;
                "reserved"
            }
            Err(error) => {
                reply.rejection = error.to_string();
                "rejected"
            }
        };
        self.metrics.count(&catalogue::RESERVED_PODS, &[result]);
        tracing::debug!(pod = info.full_name(), %node, result, "reserve");
        Ok(reply)
    }
}

impl EngineCalls for Arc<EngineServer> {
    async fn connect(
        &self,
        request: Request<ConnectRequest>,
    ) -> Result<Response<ConnectReply>, Status> {
        let request = request.into_inner();
        let end = Instant::now() + CONNECT_WAIT;
        let result = loop {
            let result = self.start_session(&request);
            let is_early = |status: &Status| status.code() == Code::Unavailable;
            if !result.as_ref().is_err_and(is_early) || Instant::now() >= end {
                break result;
            }
            tokio::time::sleep(LIST_INTERVAL).await;
        };
        self.counted("Connect", result).map(Response::new)
    }

    async fn pre_filter(
        &self,
        request: Request<PreFilterRequest>,
    ) -> Result<Response<PreFilterReply>, Status> {
        let start = Instant::now();
        let request = request.into_inner();
        let evaluated = || match self.check(request.scheduler) {
            Ok(()) => self.evaluate(&request),
            Err(status) => Err(status),
        };
        let result = loop {
            match evaluated() {
                Ok(Evaluated::Reply(reply)) => break Ok(reply),
                // Afterwards it is not too early.
                Ok(Evaluated::TooEarly) => {
                    self.catch_up(request.pods_version, CATCH_UP_WAIT).await;
                }
                Err(status) => break Err(status),
            }
        };
        self.measured("PreFilter", start, result)
    }

    async fn filter_node(
        &self,
        request: Request<FilterNodeRequest>,
    ) -> Result<Response<FilterNodeReply>, Status> {
        let request = request.into_inner();
        self.call("FilterNode", request.scheduler, || {
            self.evaluate_changed(&request)
        })
    }

    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveReply>, Status> {
        let request = request.into_inner();
        self.call("Reserve", request.scheduler, || self.reserve_pod(&request))
    }

    async fn unreserve(
        &self,
        request: Request<UnreserveRequest>,
    ) -> Result<Response<UnreserveReply>, Status> {
        let UnreserveRequest {
            scheduler,
            uid,
            maybe_bound,
        } = request.into_inner();
        self.call("Unreserve", scheduler, || {
            let uid = uid.as_str().into();
            self.engine.unreserve(&uid, maybe_bound, Instant::now());
            Ok(UnreserveReply {})
        })
    }

    async fn requeues(
        &self,
        request: Request<RequeuesRequest>,
    ) -> Result<Response<RequeuesReply>, Status> {
        let RequeuesRequest { scheduler } = request.into_inner();
        self.session.check(scheduler)?;
        let end = Instant::now() + REQUEUES_WAIT;
        let pods = loop {
            let pods = self.take_requeues();
            let left = end.saturating_duration_since(Instant::now());
            if !pods.is_empty() || left.is_zero() {
                break pods;
            }
            let _ = tokio::time::timeout(left, self.new_requeues.notified()).await;
        };
        // Another kube-scheduler fetches its own.
        self.session.check(scheduler)?;
        Ok(Response::new(RequeuesReply {
            pods,
            checks_all_pods: self.engine.cache().has_koordinator_nodes(),
        }))
    }
}

/// The result of a PreFilter call.
enum Evaluated {
    Reply(PreFilterReply),
    /// Watch events have to arrive first.
    TooEarly,
}

/// Parses the name of a node.
fn node_name(text: &str) -> Result<NodeName, Status> {
    match !text.is_empty() && text.len() <= 253 {
        true => Ok(text.into()),
        false => Err(Status::invalid_argument("expected 1 to 253 bytes in node")),
    }
}

fn too_many(what: &str) -> Status {
    Status::invalid_argument(format!("expected at most {MAX_PODS} {what}"))
}

impl From<BadRequest> for Status {
    fn from(error: BadRequest) -> Self {
        Status::invalid_argument(error.to_string())
    }
}

impl From<NoSession> for Status {
    fn from(error: NoSession) -> Self {
        let code = match error {
            NoSession::NotConnected => Code::FailedPrecondition,
            NoSession::Replaced => Code::Aborted,
        };
        Status::new(code, error.to_string())
    }
}

/// The label value of a status code.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "InvalidArgument",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::Unavailable => "Unavailable",
        _ => "Other",
    }
}
