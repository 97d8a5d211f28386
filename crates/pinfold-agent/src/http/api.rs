//! [`ApiRoutes`]: the routes of the agent's API.
//!
//! | request | effect |
//! |---|---|
//! | `GET /v1/status` | settings, health and occupancy |
//! | `GET /v1/pods` | lists the pods in the ledger |
//! | `POST /v1/pods` | admits a pod: 201, or 409 with the explanation |
//! | `DELETE /v1/pods/{uid}` | releases a pod |
//! | `POST /v1/pods/{uid}/pin` | pins a process or control group to the CPUs of a container |
//! | `POST /v1/settings` | changes the settings; with `?dryRun=true` only plans the change |
//! | `GET /v1/journal?after=N` | lists journal entries |

use std::sync::Arc;

use pinfold_core::name::PodUid;
use pinfold_daemon::http::{Handler, HttpRequest, HttpResponse, Method, StatusCode};
use serde::Serialize;

use super::{Agent, AgentApiError, ApiErrorKind, PinTarget};
use crate::metrics::{Metrics, catalogue};

/// The routes of the agent's API.
pub struct ApiRoutes {
    agent: Arc<dyn Agent>,
    metrics: Arc<Metrics>,
}

impl ApiRoutes {
    /// Serves `agent`, and counts requests in `metrics`.
    #[must_use]
    pub fn new(agent: Arc<dyn Agent>, metrics: Arc<Metrics>) -> Self {
        Self { agent, metrics }
    }
}

const JSON: &str = "application/json";
/// Number of entries on one page of the journal.
const PAGE: usize = 500;

/// The JSON body of an error response.
#[derive(Serialize)]
struct ErrorResponse<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hint: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    explanation: &'a [String],
}

impl Handler for ApiRoutes {
    fn handle(&self, request: &HttpRequest) -> HttpResponse {
        let answer = self.route(request).unwrap_or_else(|error| failure(&error));
        let code = answer.status.as_u16().to_string();
        self.metrics.count(&catalogue::API_REQUESTS, &[&code]);
        answer
    }

    fn error_response(&self, status: StatusCode, error: &str) -> HttpResponse {
        json(
            status,
            &ErrorResponse {
                error,
                hint: "",
                explanation: &[],
            },
        )
    }
}

impl ApiRoutes {
    fn route(&self, request: &HttpRequest) -> Result<HttpResponse, AgentApiError> {
        let path = request.path.strip_prefix("/v1/").unwrap_or_default();
        let path: Vec<&str> = path.split('/').collect();
        let agent = &self.agent;
        let (get, post) = (
            request.method == Method::GET,
            request.method == Method::POST,
        );
        let answer = match path.as_slice() {
            ["status"] if get => json(StatusCode::OK, &agent.status()),
            ["pods"] if get => json(StatusCode::OK, &agent.pods()),
            ["pods"] if post => json(StatusCode::CREATED, &agent.admit(&request.body)?),
            ["pods", uid] if request.method == Method::DELETE => {
                agent.release(&pod(uid)?)?;
                json(StatusCode::OK, &serde_json::json!({}))
            }
            ["pods", uid, "pin"] if post => json(
                StatusCode::OK,
                &agent.pin(&pod(uid)?, &target(&request.body)?)?,
            ),
            ["settings"] if post => match parameter(request, "dryRun")? {
                Some("true") => json(StatusCode::OK, &agent.plan(&request.body)?),
                None | Some("false") => json(StatusCode::OK, &agent.apply(&request.body)?),
                Some(other) => {
                    let error = format!("expected dryRun=true or dryRun=false, found {other:?}");
                    return Err(AgentApiError::new(ApiErrorKind::BadInput, error, ""));
                }
            },
            ["journal"] if get => {
                let after = parameter(request, "after")?.unwrap_or("0");
                let after = after.parse().map_err(|_| {
                    let error = format!("expected after=NUMBER, found {after:?}");
                    AgentApiError::new(ApiErrorKind::BadInput, error, "")
                })?;
                json(StatusCode::OK, &agent.journal(after, PAGE)?)
            }
            ["status" | "pods" | "settings" | "journal"] | ["pods", _] | ["pods", _, "pin"] => {
                let error = format!("{} does not support {}", request.path, request.method);
                return Ok(self.error_response(StatusCode::METHOD_NOT_ALLOWED, &error));
            }
            _ => {
                let error = format!("no such path: {}", request.path);
                let hint = "GET /v1/status shows the status of the agent";
                return Err(AgentApiError::new(ApiErrorKind::NotFound, error, hint));
            }
        };
        Ok(answer)
    }
}

/// Whether a pod with this UID can be named in the path of a request.
pub(crate) fn is_valid_uid(uid: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.:~/".contains(&c);
    !uid.is_empty() && uid.len() <= 512 && uid.bytes().all(is_plain)
}

/// The pod UID in a path. The UID of a pod without one is its namespace and name, with the `/` between them as `%2F`.
fn pod(uid: &str) -> Result<PodUid, AgentApiError> {
    let uid = uid.replace("%2F", "/").replace("%2f", "/");
    match is_valid_uid(&uid) {
        true => Ok(uid.into()),
        false => Err(AgentApiError::new(
            ApiErrorKind::BadInput,
            "expected the uid of a pod in the path",
            "GET /v1/pods lists them; write / as %2F",
        )),
    }
}

fn target(body: &[u8]) -> Result<PinTarget, AgentApiError> {
    const FORM: &str = "send {\"pid\": 4711} or {\"cgroup\": \"/sys/fs/cgroup/…\"}";
    let bad = |error: String| AgentApiError::new(ApiErrorKind::BadInput, error, FORM);
    let target: PinTarget = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    match (&target.pid, &target.cgroup) {
        (Some(0), _) => Err(bad("pid 0 is not a process".to_owned())),
        (Some(_), None) => Ok(target),
        (None, Some(path)) if path.is_absolute() => Ok(target),
        (None, Some(_)) => Err(bad(
            "the path of the control group is not absolute".to_owned()
        )),
        _ => Err(bad("expected either pid or cgroup".to_owned())),
    }
}

/// The value of the only query parameter of a route.
fn parameter<'a>(request: &'a HttpRequest, name: &str) -> Result<Option<&'a str>, AgentApiError> {
    let mut found = None;
    for pair in request.query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key, value)) if key == name => found = Some(value),
            _ => {
                let error = format!("unknown parameter {pair:?}");
                let hint = format!("the only parameter here is {name}");
                return Err(AgentApiError::new(ApiErrorKind::BadInput, error, hint));
            }
        }
    }
    Ok(found)
}

fn failure(error: &AgentApiError) -> HttpResponse {
    let status = match error.kind {
        ApiErrorKind::BadInput => StatusCode::BAD_REQUEST,
        ApiErrorKind::NotFound => StatusCode::NOT_FOUND,
        ApiErrorKind::Rejected | ApiErrorKind::Conflict => StatusCode::CONFLICT,
        ApiErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        ApiErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ApiErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let body = ErrorResponse {
        error: &error.error,
        hint: &error.hint,
        explanation: &error.explanation,
    };
    json(status, &body)
}

fn json(status: StatusCode, value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            HttpResponse {
                status,
                content_type: JSON,
                body,
            }
        }
        Err(_) => HttpResponse {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            content_type: JSON,
            body: b"{\"error\":\"the response cannot be serialized\"}\n".to_vec(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_valid_uid;

    #[test]
    fn a_uid_that_no_request_could_name_is_invalid() {
        for uid in ["7d79-3037", "run:12.main_1", "default/web"] {
            assert!(is_valid_uid(uid), "{uid}");
        }
        let long = "x".repeat(513);
        for uid in ["", "a b", "a\u{1b}[2J", "a\n", "ü", &long] {
            assert!(!is_valid_uid(uid), "{uid:?}");
        }
    }
}
