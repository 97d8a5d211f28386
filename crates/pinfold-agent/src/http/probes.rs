//! [`Probes`]: what Prometheus and the kubelet's probes ask. Nothing here changes anything.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use super::Agent;
use super::server::{Answer, Answers, Asked};
use crate::metrics::Metrics;

/// Answers `/metrics`, `/healthz` and `/readyz`.
pub struct Probes {
    agent: Arc<dyn Agent>,
    metrics: Arc<Metrics>,
}

impl Probes {
    /// For this agent.
    #[must_use]
    pub fn new(agent: Arc<dyn Agent>, metrics: Arc<Metrics>) -> Self {
        Self { agent, metrics }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
/// What Prometheus calls its text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Answers for Probes {
    fn answer(&self, asked: &Asked) -> Answer {
        if asked.method != Method::GET && asked.method != Method::HEAD {
            return self.refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        let health = |problems: Vec<String>| match problems.as_slice() {
            [] => plain(StatusCode::OK, "ok"),
            problems => plain(StatusCode::SERVICE_UNAVAILABLE, &problems.join("\n")),
        };
        match asked.path.as_str() {
            "/healthz" => health(self.agent.health().broken),
            "/readyz" => {
                let found = self.agent.health();
                health([found.broken, found.waiting].concat())
            }
            "/metrics" => {
                self.agent.measure(&self.metrics);
                Answer {
                    status: StatusCode::OK,
                    content: EXPOSITION,
                    body: self.metrics.expose().into_bytes(),
                }
            }
            _ => self.refuse(StatusCode::NOT_FOUND, "only /metrics, /healthz and /readyz"),
        }
    }

    fn refuse(&self, status: StatusCode, error: &str) -> Answer {
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
