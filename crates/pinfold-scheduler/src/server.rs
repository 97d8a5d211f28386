//! The server: the four verbs over HTTP or HTTPS, answered only by the leader, once everything was listed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_apiserver::Api;
use pinfold_daemon::Metrics;
use pinfold_daemon::http::{
    DaemonStatus, Handler, Health, HttpLimits, HttpRequest, HttpResponse, Method, StatusCode,
};
use tokio::runtime::Handle;

use crate::cache::Kind;
use crate::extender::bind::Bound;
use crate::extender::filter::Filtered;
use crate::extender::{BadRequest, Extender};
use crate::leader::Standing;
use crate::metrics::catalogue;
use crate::wake::Waiting;

/// What one client can cost. Without `nodeCacheCapable` a request carries thousands of nodes.
pub const LIMITS: HttpLimits = HttpLimits {
    connections: 64,
    header_bytes: 16 << 10,
    body_bytes: 32 << 20,
    request_timeout: Duration::from_secs(60),
    connection_lifetime: Duration::from_secs(600),
};

/// Answers requests.
pub struct Desk {
    /// Who decides.
    pub extender: Arc<Extender>,
    /// The API server, once it is known.
    pub api: Api,
    /// Whether this one answers.
    pub standing: Arc<Standing>,
    /// Who waits for a place.
    pub waiting: Arc<Waiting>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where bindings run.
    pub handle: Handle,
}

const JSON: &str = "application/json";

impl Desk {
    /// What keeps this one from answering.
    fn waits_for(&self) -> Vec<String> {
        let cache = self.extender.cache();
        let mut waits: Vec<String> = cache
            .listed()
            .missing()
            .into_iter()
            .map(|what| format!("{what} were not listed yet"))
            .collect();
        let listed = cache.pods_listed();
        drop(cache);
        match self.standing.leads_since(Instant::now()) {
            None => waits.push("another one is the leader".to_owned()),
            Some(since) if listed.is_none_or(|listed| listed < since) => {
                waits.push("pods were not listed since this one is the leader".to_owned());
            }
            Some(_) => {}
        }
        waits
    }

    fn route(&self, asked: &HttpRequest) -> HttpResponse {
        let begun = Instant::now();
        let path = asked.path.trim_start_matches('/');
        let verb = ["filter", "prioritize", "preempt", "bind"]
            .into_iter()
            .find(|verb| {
                path == *verb
                    || path
                        .strip_suffix(verb)
                        .is_some_and(|rest| rest.ends_with('/'))
            });
        let Some(verb) = verb else {
            let words = "only /filter, /prioritize, /preempt and /bind";
            return self.error_response(StatusCode::NOT_FOUND, words);
        };
        if asked.method != Method::POST {
            return self.error_response(StatusCode::METHOD_NOT_ALLOWED, "only POST");
        }
        let waits = self.waits_for();
        if !waits.is_empty() {
            return self.error_response(StatusCode::SERVICE_UNAVAILABLE, &waits.join("; "));
        }
        let answered = match verb {
            "filter" => self.filter(&asked.body),
            "prioritize" => self.extender.prioritize(&asked.body),
            "preempt" => self.extender.preempt(&asked.body),
            _ => self.bind(&asked.body),
        };
        let seconds = begun.elapsed().as_secs_f64();
        self.metrics.observe(&catalogue::REQUESTS, &[verb], seconds);
        match answered {
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
        let begun = Instant::now();
        let (answer, filtered) = self.extender.filter(body)?;
        let Filtered {
            asked,
            nodes,
            rejections,
            passed,
        } = filtered;
        for (reason, count) in rejections {
            self.metrics.add(&catalogue::REFUSALS, &[reason], count);
        }
        if let Some(asked) = asked {
            let name = asked.full_name();
            tracing::debug!(pod = name, nodes, passed, "filtered");
            match passed {
                0 if nodes > 0 => self.waiting.rejected(asked, begun),
                _ => self.waiting.found(asked.uid()),
            }
        }
        Ok(answer)
    }

    fn bind(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let bound = self.handle.block_on(self.extender.bind(body, &self.api))?;
        let Bound {
            answer,
            pod,
            node,
            error,
        } = bound;
        let result = error.as_ref().map_or("bound", |error| error.name());
        self.metrics.count(&catalogue::BINDINGS, &[result]);
        match error {
            None => tracing::info!(pod, node, "bound"),
            Some(error) => tracing::warn!(pod, node, %error, "binding failed"),
        }
        Ok(answer)
    }
}

impl Handler for Desk {
    fn handle(&self, asked: &HttpRequest) -> HttpResponse {
        self.route(asked)
    }

    fn error_response(&self, status: StatusCode, error: &str) -> HttpResponse {
        let body = serde_json::json!({ "Error": error });
        HttpResponse {
            status,
            content_type: JSON,
            body: body.to_string().into_bytes(),
        }
    }
}

impl DaemonStatus for Desk {
    fn health(&self) -> Health {
        Health {
            not_live: Vec::new(),
            not_ready: self.waits_for(),
        }
    }

    fn update_gauges(&self, metrics: &Metrics) {
        let now = Instant::now();
        let cache = self.extender.cache();
        metrics.clear(&catalogue::NODES);
        for kind in Kind::ALL {
            for report in ["fresh", "behind", "missing"] {
                metrics.set(&catalogue::NODES, &[kind.name(), report], 0.0);
            }
        }
        let mut misfits = 0;
        for (_, record) in cache.nodes() {
            let report = match (record.kind, record.behind) {
                (Kind::Unknown, _) => "missing",
                (_, true) => "behind",
                (_, false) => "fresh",
            };
            metrics.add(&catalogue::NODES, &[record.kind.name(), report], 1);
            misfits += record.misfits.len();
        }
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        metrics.set(&catalogue::MISFITS, &[], number(misfits));
        let (bound, waiting) = cache.count_pods();
        metrics.set(&catalogue::PODS, &["bound"], number(bound));
        metrics.set(&catalogue::PODS, &["waiting"], number(waiting));
        let (mut open, mut done, mut oldest) = (0, 0, 0.0_f64);
        for (_, reservation) in cache.reservations() {
            match reservation.bound {
                true => done += 1,
                false => open += 1,
            }
            let age = now.saturating_duration_since(reservation.since);
            oldest = oldest.max(age.as_secs_f64());
        }
        drop(cache);
        metrics.set(&catalogue::RESERVATIONS, &["binding"], number(open));
        metrics.set(&catalogue::RESERVATIONS, &["bound"], number(done));
        metrics.set(&catalogue::OLDEST_RESERVATION, &[], oldest);
        let leads = self.standing.leads_since(now).is_some();
        metrics.set(&catalogue::LEADER, &[], f64::from(u8::from(leads)));
    }
}
