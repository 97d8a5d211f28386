//! [`Probes`]: what Prometheus and the kubelet's probes ask. Nothing here changes anything.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use super::server::{Answer, Answers, Asked};
use crate::metrics::Metrics;

/// Whether a daemon lives and whether it does its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What is so wrong that only a new start can help.
    pub broken: Vec<String>,
    /// What keeps it from doing its job for now.
    pub waiting: Vec<String>,
}

/// Who is asked.
pub trait Probed: Send + Sync + 'static {
    /// Whether it lives and whether it does its job.
    fn health(&self) -> Health;

    /// Measures what is measured only when somebody asks.
    fn measure(&self, metrics: &Metrics);
}

/// Answers `/metrics`, `/healthz` and `/readyz`.
pub struct Probes<P: ?Sized> {
    metrics: Arc<Metrics>,
    probed: Arc<P>,
}

impl<P: Probed + ?Sized> Probes<P> {
    /// For this daemon.
    #[must_use]
    pub fn new(probed: Arc<P>, metrics: Arc<Metrics>) -> Self {
        Self { metrics, probed }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
/// What Prometheus calls its text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

impl<P: Probed + ?Sized> Answers for Probes<P> {
    fn answer(&self, asked: &Asked) -> Answer {
        if asked.method != Method::GET && asked.method != Method::HEAD {
            return self.reject(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        let health = |problems: Vec<String>| match problems.as_slice() {
            [] => plain(StatusCode::OK, "ok"),
            problems => plain(StatusCode::SERVICE_UNAVAILABLE, &problems.join("\n")),
        };
        match asked.path.as_str() {
            "/healthz" => health(self.probed.health().broken),
            "/readyz" => {
                let found = self.probed.health();
                health([found.broken, found.waiting].concat())
            }
            "/metrics" => {
                self.probed.measure(&self.metrics);
                Answer {
                    status: StatusCode::OK,
                    content: EXPOSITION,
                    body: self.metrics.expose().into_bytes(),
                }
            }
            _ => self.reject(StatusCode::NOT_FOUND, "only /metrics, /healthz and /readyz"),
        }
    }

    fn reject(&self, status: StatusCode, error: &str) -> Answer {
        plain(status, error)
    }
}

fn plain(status: StatusCode, text: &str) -> Answer {
    Answer {
        status,
        content: PLAIN,
        body: format!("{text}\n").into_bytes(),
    }
}
