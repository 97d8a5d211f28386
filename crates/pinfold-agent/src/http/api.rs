//! [`Api`]: the routes of the node's API.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | how the node is |
//! | `GET /v1/pods` | who is here |
//! | `POST /v1/pods` | a pod comes: 201, or 409 with the explanation |
//! | `DELETE /v1/pods/{uid}` | it leaves |
//! | `POST /v1/pods/{uid}/enforce` | a process or control group is confined to what it was given |
//! | `POST /v1/settings?dryRun=true` | other rules: the plan, or without `dryRun` its doing |
//! | `GET /v1/journal?after=N` | the history |

use std::sync::Arc;

use pinfold_core::name::PodUid;
use pinfold_daemon::http::{Answer, Answers, Asked, Method, StatusCode};
use serde::Serialize;

use super::{Agent, ApiError, ErrorKind, Target};
use crate::metrics::{Metrics, catalogue};

/// The routes of the node's API.
pub struct Api {
    agent: Arc<dyn Agent>,
    metrics: Arc<Metrics>,
}

impl Api {
    /// For this agent.
    #[must_use]
    pub fn new(agent: Arc<dyn Agent>, metrics: Arc<Metrics>) -> Self {
        Self { agent, metrics }
    }
}

const JSON: &str = "application/json";
/// The entries of one page of the journal.
const PAGE: usize = 500;

/// An error as JSON.
#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hint: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    explanation: &'a [String],
}

impl Answers for Api {
    fn answer(&self, asked: &Asked) -> Answer {
        let answer = self.route(asked).unwrap_or_else(|error| failure(&error));
        let code = answer.status.as_u16().to_string();
        self.metrics.count(&catalogue::API_REQUESTS, &[&code]);
        answer
    }

    fn reject(&self, status: StatusCode, error: &str) -> Answer {
        json(
            status,
            &Failure {
                error,
                hint: "",
                explanation: &[],
            },
        )
    }
}

impl Api {
    fn route(&self, asked: &Asked) -> Result<Answer, ApiError> {
        let path = asked.path.strip_prefix("/v1/").unwrap_or_default();
        let path: Vec<&str> = path.split('/').collect();
        let agent = &self.agent;
        let (get, post) = (asked.method == Method::GET, asked.method == Method::POST);
        let answer = match path.as_slice() {
            ["status"] if get => json(StatusCode::OK, &agent.status()),
            ["pods"] if get => json(StatusCode::OK, &agent.pods()),
            ["pods"] if post => json(StatusCode::CREATED, &agent.admit(&asked.body)?),
            ["pods", uid] if asked.method == Method::DELETE => {
                agent.release(&pod(uid)?)?;
                json(StatusCode::OK, &serde_json::json!({}))
            }
            ["pods", uid, "enforce"] if post => json(
                StatusCode::OK,
                &agent.enforce(&pod(uid)?, &target(&asked.body)?)?,
            ),
            ["settings"] if post => match parameter(asked, "dryRun")? {
                Some("true") => json(StatusCode::OK, &agent.plan(&asked.body)?),
                None | Some("false") => json(StatusCode::OK, &agent.apply(&asked.body)?),
                Some(other) => {
                    let error = format!("expected dryRun=true or dryRun=false, found {other:?}");
                    return Err(ApiError::new(ErrorKind::BadInput, error, ""));
                }
            },
            ["journal"] if get => {
                let after = parameter(asked, "after")?.unwrap_or("0");
                let after = after.parse().map_err(|_| {
                    let error = format!("expected after=NUMBER, found {after:?}");
                    ApiError::new(ErrorKind::BadInput, error, "")
                })?;
                json(StatusCode::OK, &agent.journal(after, PAGE)?)
            }
            ["status" | "pods" | "settings" | "journal"] | ["pods", _] | ["pods", _, "enforce"] => {
                let error = format!("{} {} is not possible", asked.method, asked.path);
                return Ok(self.reject(StatusCode::METHOD_NOT_ALLOWED, &error));
            }
            _ => {
                let error = format!("there is no {}", asked.path);
                let hint = "GET /v1/status tells how the node is";
                return Err(ApiError::new(ErrorKind::NotFound, error, hint));
            }
        };
        Ok(answer)
    }
}

/// The id in a path. A pod without a uid goes by its namespace and name, with the `/` between them as `%2F`.
fn pod(uid: &str) -> Result<PodUid, ApiError> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.:~/".contains(&c);
    let uid = uid.replace("%2F", "/").replace("%2f", "/");
    match !uid.is_empty() && uid.len() <= 512 && uid.bytes().all(is_plain) {
        true => Ok(uid.into()),
        false => Err(ApiError::new(
            ErrorKind::BadInput,
            "expected the uid of a pod in the path",
            "GET /v1/pods lists them; write / as %2F",
        )),
    }
}

fn target(body: &[u8]) -> Result<Target, ApiError> {
    const FORM: &str = "send {\"pid\": 4711} or {\"cgroup\": \"/sys/fs/cgroup/…\"}";
    let bad = |error: String| ApiError::new(ErrorKind::BadInput, error, FORM);
    let target: Target = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    match (&target.pid, &target.cgroup) {
        (Some(0), _) => Err(bad("0 is no process".to_owned())),
        (Some(_), None) => Ok(target),
        (None, Some(path)) if path.is_absolute() => Ok(target),
        (None, Some(_)) => Err(bad(
            "the path of the control group is not absolute".to_owned()
        )),
        _ => Err(bad("expected either pid or cgroup".to_owned())),
    }
}

/// The one parameter that a route has.
fn parameter<'a>(asked: &'a Asked, name: &str) -> Result<Option<&'a str>, ApiError> {
    let mut found = None;
    for pair in asked.query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key, value)) if key == name => found = Some(value),
            _ => {
                let error = format!("unknown parameter {pair:?}");
                let hint = format!("the only parameter here is {name}");
                return Err(ApiError::new(ErrorKind::BadInput, error, hint));
            }
        }
    }
    Ok(found)
}

fn failure(error: &ApiError) -> Answer {
    let status = match error.kind {
        ErrorKind::BadInput => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Rejected | ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::NotHere => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let told = Failure {
        error: &error.error,
        hint: &error.hint,
        explanation: &error.explanation,
    };
    json(status, &told)
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            Answer {
                status,
                content: JSON,
                body,
            }
        }
        Err(_) => Answer {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            content: JSON,
            body: b"{\"error\":\"the answer cannot be written\"}\n".to_vec(),
        },
    }
}
