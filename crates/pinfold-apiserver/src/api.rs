//! [`Api`]: requests to the API server with a limit on time and on the size of every answer.

use std::error::Error;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::{AuthError, Body};
use serde_json::Value;
use tokio::time::timeout;

use crate::connection::{Connection, ConnectionError};

/// The largest answer that is read; the server takes 3 MiB for one object, and lists come in pages.
pub(crate) const MAX_BYTES: usize = 8 * 1024 * 1024;
/// The most of a message that is kept.
const MAX_MESSAGE: usize = 512;
/// Why a request did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// Nothing was heard from the server.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// No answer, or only the beginning of one, in time.
    #[error("no answer from the API server for {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server says no.
    #[error("{method} {path}: {code} {message}")]
    Rejected {
        /// What was asked.
        method: &'static str,
        /// Of what.
        path: String,
        /// The number of the answer.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// An answer that is larger than anything we ask for.
    #[error("{path}: expected at most {limit} bytes, found more")]
    TooLarge {
        /// What was asked for.
        path: String,
        /// How many bytes are read.
        limit: usize,
    },
    /// An answer that is not what it should be.
    #[error("{path}: expected {expected}, found something else")]
    Garbage {
        /// What was asked for.
        path: String,
        /// What it should have been.
        expected: &'static str,
    },
}

impl ApiError {
    /// The number of a rejection.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Rejected { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The API server.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    limit: Duration,
}

impl Api {
    /// The server at the other end of a connection. Must be called where a runtime runs.
    ///
    /// # Errors
    /// If certificates, keys or a proxy cannot be used.
    pub fn new(connection: &Connection, limit: Duration) -> Result<Self, ConnectionError> {
        let client = connection.client()?;
        Ok(Self { client, limit })
    }

    /// The longest that one request may take.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Reads something.
    ///
    /// # Errors
    /// If there is no answer, or another one than was asked for.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.ask("GET", path, None).await
    }

    /// Reads something as it is written there.
    ///
    /// # Errors
    /// If there is no answer, or a larger one than is read.
    pub async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        self.answered("GET", path, None).await
    }

    /// Writes something new.
    ///
    /// # Errors
    /// If there is no answer, or it is a rejection.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.ask("POST", path, Some(("application/json", body)))
            .await
    }

    /// Replaces something.
    ///
    /// # Errors
    /// If there is no answer, or it is a rejection.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.ask("PUT", path, Some(("application/json", body)))
            .await
    }

    /// Changes members of an object.
    ///
    /// # Errors
    /// If there is no answer, or it is a rejection.
    pub async fn merge_patch(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        let content = ("application/merge-patch+json", body);
        self.ask("PATCH", path, Some(content)).await
    }

    async fn ask(
        &self,
        method: &'static str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, ApiError> {
        let bytes = self.answered(method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|_| ApiError::Garbage {
            path: path.to_owned(),
            expected: "JSON",
        })
    }

    async fn answered(
        &self,
        method: &'static str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Vec<u8>, ApiError> {
        let asked = async {
            let response = self.send(method, path, body).await?;
            read(response.into_body(), path, MAX_BYTES).await
        };
        timeout(self.limit, asked)
            .await
            .unwrap_or(Err(ApiError::TimedOut(self.limit)))
    }

    /// Lines as the server sends them.
    pub(crate) async fn lines(&self, path: &str) -> Result<Lines, ApiError> {
        let response = timeout(self.limit, self.send("GET", path, None))
            .await
            .unwrap_or(Err(ApiError::TimedOut(self.limit)))?;
        Ok(Lines {
            body: response.into_body(),
            path: path.to_owned(),
            buffer: Vec::new(),
            looked_at: 0,
        })
    }

    async fn send(
        &self,
        method: &'static str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Response<Body>, ApiError> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap_or_default())
            .uri(path)
            .header("accept", "application/json");
        let body = match body {
            None => Vec::new(),
            Some((kind, body)) => {
                request = request.header("content-type", kind);
                body.to_string().into_bytes()
            }
        };
        let request = request
            .body(Body::from(body))
            .map_err(|_| ApiError::Garbage {
                path: path.to_owned(),
                expected: "a path",
            })?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| ApiError::Unreachable(told(&error)))?;
        let code = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        // What cannot be read says no more than its number.
        let bytes = read(response.into_body(), path, MAX_BYTES).await;
        let status: Value = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default();
        Err(ApiError::Rejected {
            method,
            path: path.to_owned(),
            code,
            message: shortened(message, MAX_MESSAGE),
        })
    }
}

async fn read(mut body: Body, path: &str, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::Unreachable(told(&error)))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len().saturating_add(data.len()) > limit {
            return Err(ApiError::TooLarge {
                path: path.to_owned(),
                limit,
            });
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// An answer that goes on, line by line.
pub(crate) struct Lines {
    body: Body,
    path: String,
    buffer: Vec<u8>,
    /// There is no end of a line before this.
    looked_at: usize,
}

impl Lines {
    /// The next line; `None` at the end. An unfinished last line was never meant.
    pub(crate) async fn next(&mut self, idle: Duration) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            let rest = self.buffer.get(self.looked_at..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=self.looked_at + end).collect();
                line.pop();
                self.looked_at = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            self.looked_at = self.buffer.len();
            let frame = timeout(idle, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| ApiError::TimedOut(idle))? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| ApiError::Unreachable(told(&error)))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if self.buffer.len().saturating_add(data.len()) > MAX_BYTES {
                return Err(ApiError::TooLarge {
                    path: self.path.clone(),
                    limit: MAX_BYTES,
                });
            }
            self.buffer.extend_from_slice(&data);
        }
    }
}

/// An error with its causes, without what a credential program printed.
pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let mut told = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(AuthError::AuthExecRun { cmd, out }) = error.downcast_ref() {
            return format!("the credential program {cmd} failed: {}", out.status);
        }
        if let Some(AuthError::AuthExecParse(_)) = error.downcast_ref() {
            return "the credential program printed something else than credentials".to_owned();
        }
        if let Some(kube::Error::Service(_) | kube::Error::HyperError(_)) = error.downcast_ref() {
            next = error.source();
            continue;
        }
        let text = error.to_string();
        // Many errors repeat their cause.
        if !told.ends_with(&text) {
            if !told.is_empty() {
                told.push_str(": ");
            }
            told.push_str(&text);
        }
        next = error.source();
    }
    shortened(&told, MAX_MESSAGE)
}

/// The text, cut to so many bytes.
#[must_use]
pub fn shortened(text: &str, bytes: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(MARK.len()));
    format!("{}{MARK}", text.get(..end).unwrap_or_default())
}

/// A value in a path or a query.
#[must_use]
pub fn escaped(text: &str) -> String {
    use std::fmt::Write;
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_never_longer_than_allowed() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("ääää", 7), "ää…");
        for bytes in 3..20 {
            assert!(shortened("añb…c𝄞d—e", bytes).len() <= bytes);
        }
    }

    #[test]
    fn nothing_in_a_value_ends_a_path_or_a_query() {
        assert_eq!(escaped("a/../b?c&d=e%"), "a%2F..%2Fb%3Fc%26d%3De%25");
    }
}
