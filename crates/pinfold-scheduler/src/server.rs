//! [`ExtenderServer`]: serves the extender's verbs over HTTP or HTTPS. Only the leader serves them, after all lists.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_apiserver::ApiClient;
use pinfold_daemon::Metrics;
use pinfold_daemon::http::{
    DaemonStatus, Handler, Health, HttpLimits, HttpRequest, HttpResponse, Method, StatusCode,
};
use tokio::runtime::Handle;

use crate::cache::ReportedDialect;
use crate::extender::bind::BindOutcome;
use crate::extender::filter::FilterSummary;
use crate::extender::{BadRequest, Extender};
use crate::leader::Leadership;
use crate::metrics::catalogue;
use crate::requeue::RejectedPods;

/// The limits of the server. Without `nodeCacheCapable` a request contains thousands of nodes.
pub const LIMITS: HttpLimits = HttpLimits {
    connections: 64,
    header_bytes: 16 << 10,
    body_bytes: 32 << 20,
    request_timeout: Duration::from_secs(60),
    connection_lifetime: Duration::from_secs(600),
};

/// Serves requests of kube-scheduler.
pub struct ExtenderServer {
    /// Decides about the requests.
    pub extender: Arc<Extender>,
    /// The client that sends bindings.
    pub api: ApiClient,
    /// Whether this extender is the leader.
    pub leadership: Arc<Leadership>,
    /// Pods that every node rejected.
    pub rejected_pods: Arc<RejectedPods>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The runtime that bindings run on.
    pub handle: Handle,
}

const JSON: &str = "application/json";

impl ExtenderServer {
    /// Why requests cannot be served now; empty if they can.
    fn not_ready_reasons(&self) -> Vec<String> {
        let cache = self.extender.cache();
        let mut reasons: Vec<String> = cache
            .listed()
            .missing()
            .into_iter()
            .map(|resource| format!("{resource} not listed yet"))
            .collect();
        let listed = cache.pods_listed_at();
        drop(cache);
        match self.leadership.leader_since(Instant::now()) {
            None => reasons.push("not the leader".to_owned()),
            Some(since) if listed.is_none_or(|listed| listed < since) => {
                reasons.push("pods not listed since becoming the leader".to_owned());
            }
            Some(_) => {}
        }
        reasons
    }

    fn route(&self, request: &HttpRequest) -> HttpResponse {
        let start = Instant::now();
        let path = request.path.trim_start_matches('/');
        let verb = ["filter", "prioritize", "preempt", "bind"]
            .into_iter()
            .find(|verb| {
                path == *verb
                    || path
                        .strip_suffix(verb)
                        .is_some_and(|rest| rest.ends_with('/'))
            });
        let Some(verb) = verb else {
            let message = "only /filter, /prioritize, /preempt and /bind";
            return self.error_response(StatusCode::NOT_FOUND, message);
        };
        if request.method != Method::POST {
            return self.error_response(StatusCode::METHOD_NOT_ALLOWED, "only POST");
        }
        let reasons = self.not_ready_reasons();
        if !reasons.is_empty() {
            return self.error_response(StatusCode::SERVICE_UNAVAILABLE, &reasons.join("; "));
        }
        let result = match verb {
            "filter" => self.filter(&request.body),
            "prioritize" => self.extender.prioritize(&request.body),
            "preempt" => self.extender.preempt(&request.body),
            _ => self.bind(&request.body),
        };
        let seconds = start.elapsed().as_secs_f64();
        self.metrics.observe(&catalogue::REQUESTS, &[verb], seconds);
        match result {
            Ok(body) => HttpResponse {
                status: StatusCode::OK,
                content_type: JSON,
                body,
            },
            Err(error) => {
                self.metrics.count(&catalogue::BAD_REQUESTS, &[verb]);
                tracing::warn!(verb, %error, "bad request");
                self.error_response(StatusCode::BAD_REQUEST, &error.to_string())
            }
        }
    }

    fn filter(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let start = Instant::now();
        let (response, outcome) = self.extender.filter(body)?;
        let FilterSummary {
            info,
            nodes,
            rejections,
            passed,
        } = outcome;
        for (reason, count) in rejections {
            self.metrics.add(&catalogue::REJECTIONS, &[reason], count);
        }
        if let Some(info) = info {
            let name = info.full_name();
            tracing::debug!(pod = name, nodes, passed, "filtered");
            match passed {
                0 if nodes > 0 => self.rejected_pods.add(info, start),
                _ => self.rejected_pods.remove(info.uid()),
            }
        }
        Ok(response)
    }

    fn bind(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let outcome = self.handle.block_on(self.extender.bind(body, &self.api))?;
        let BindOutcome {
            response,
            pod,
            node,
            error,
        } = outcome;
        let result = error.as_ref().map_or("bound", |error| error.name());
        self.metrics.count(&catalogue::BINDINGS, &[result]);
        match error {
            None => tracing::info!(pod, node, "bound"),
            Some(error) => tracing::warn!(pod, node, %error, "binding failed"),
        }
        Ok(response)
    }
}

impl Handler for ExtenderServer {
    fn handle(&self, request: &HttpRequest) -> HttpResponse {
        self.route(request)
    }

    fn error_response(&self, status: StatusCode, message: &str) -> HttpResponse {
        let body = serde_json::json!({ "Error": message });
        HttpResponse {
            status,
            content_type: JSON,
            body: body.to_string().into_bytes(),
        }
    }
}

impl DaemonStatus for ExtenderServer {
    fn health(&self) -> Health {
        Health {
            not_live: Vec::new(),
            not_ready: self.not_ready_reasons(),
        }
    }

    fn update_gauges(&self, metrics: &Metrics) {
        let now = Instant::now();
        let cache = self.extender.cache();
        metrics.clear(&catalogue::NODES);
        for dialect in ReportedDialect::ALL {
            for report in ["fresh", "stale", "missing"] {
                metrics.set(&catalogue::NODES, &[dialect.name(), report], 0.0);
            }
        }
        let mut misplaced = 0;
        for (_, record) in cache.nodes() {
            let report = match (record.dialect, record.stale) {
                (ReportedDialect::Unknown, _) => "missing",
                (_, true) => "stale",
                (_, false) => "fresh",
            };
            metrics.add(&catalogue::NODES, &[record.dialect.name(), report], 1);
            misplaced += record.misplaced.len();
        }
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        metrics.set(&catalogue::MISPLACED_PODS, &[], number(misplaced));
        let (bound, pending) = cache.count_pods();
        metrics.set(&catalogue::PODS, &["bound"], number(bound));
        metrics.set(&catalogue::PODS, &["pending"], number(pending));
        let (mut binding, mut bound, mut oldest) = (0, 0, 0.0_f64);
        for (_, reservation) in cache.reservations() {
            match reservation.bound {
                true => bound += 1,
                false => binding += 1,
            }
            let age = now.saturating_duration_since(reservation.since);
            oldest = oldest.max(age.as_secs_f64());
        }
        drop(cache);
        metrics.set(&catalogue::RESERVATIONS, &["binding"], number(binding));
        metrics.set(&catalogue::RESERVATIONS, &["bound"], number(bound));
        metrics.set(&catalogue::OLDEST_RESERVATION, &[], oldest);
        let leads = self.leadership.leader_since(now).is_some();
        metrics.set(&catalogue::LEADER, &[], f64::from(u8::from(leads)));
    }
}
