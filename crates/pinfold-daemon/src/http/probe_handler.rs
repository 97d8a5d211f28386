//! [`ProbeHandler`]: serves `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use super::server::{Handler, HttpRequest, HttpResponse};
use crate::metrics::Metrics;

/// The results of the liveness and readiness probes of a daemon: one sentence per problem, empty if healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Problems that only a restart can solve: `/healthz` and `/readyz` fail.
    pub not_live: Vec<String>,
    /// Problems that keep the daemon from doing its job for now: `/readyz` fails.
    pub not_ready: Vec<String>,
}

/// A daemon that reports its health and metrics.
pub trait DaemonStatus: Send + Sync + 'static {
    /// The health of the daemon at this moment.
    fn health(&self) -> Health;

    /// Sets the gauges that are computed only when `/metrics` is read.
    fn update_gauges(&self, metrics: &Metrics);
}

/// Serves `/metrics`, `/healthz` and `/readyz` of a daemon.
pub struct ProbeHandler<D: ?Sized> {
    metrics: Arc<Metrics>,
    daemon: Arc<D>,
}

impl<D: DaemonStatus + ?Sized> ProbeHandler<D> {
    /// Serves the health of `daemon` and its metrics.
    #[must_use]
    pub fn new(daemon: Arc<D>, metrics: Arc<Metrics>) -> Self {
        Self { metrics, daemon }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
/// The content type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

impl<D: DaemonStatus + ?Sized> Handler for ProbeHandler<D> {
    fn handle(&self, request: &HttpRequest) -> HttpResponse {
        if request.method != Method::GET && request.method != Method::HEAD {
            return self.error_response(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        let probe = |problems: Vec<String>| match problems.as_slice() {
            [] => plain(StatusCode::OK, "ok"),
            problems => plain(StatusCode::SERVICE_UNAVAILABLE, &problems.join("\n")),
        };
        match request.path.as_str() {
            "/healthz" => probe(self.daemon.health().not_live),
            "/readyz" => {
                let health = self.daemon.health();
                probe([health.not_live, health.not_ready].concat())
            }
            "/metrics" => {
                self.daemon.update_gauges(&self.metrics);
                HttpResponse {
                    status: StatusCode::OK,
                    content_type: EXPOSITION,
                    body: self.metrics.expose().into_bytes(),
                }
            }
            _ => self.error_response(StatusCode::NOT_FOUND, "only /metrics, /healthz and /readyz"),
        }
    }

    fn error_response(&self, status: StatusCode, message: &str) -> HttpResponse {
        plain(status, message)
    }
}

fn plain(status: StatusCode, text: &str) -> HttpResponse {
    HttpResponse {
        status,
        content_type: PLAIN,
        body: format!("{text}\n").into_bytes(),
    }
}
