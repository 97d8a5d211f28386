//! [`ApiClient`]: requests to the API server, bounded in time and in the size of the response.

use std::error::Error;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::{AuthError, Body};
use serde_json::Value;
use tokio::time::timeout;

use crate::connection::{Connection, ConnectionError};

/// The largest response that is read: the API server limits an object to 3 MiB, and lists are paged.
pub(crate) const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of an error message that are kept.
const MAX_MESSAGE: usize = 512;

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The connection failed.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// The response did not arrive completely in time.
    #[error("no response from the API server for {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server responded with an error status.
    #[error("{method} {path}: {code} {message}")]
    Rejected {
        /// The HTTP method.
        method: &'static str,
        /// The path and query of the request.
        path: String,
        /// The HTTP status code.
        code: u16,
        /// The message of the server.
        message: String,
    },
    /// The response exceeds the limit.
    #[error("{path}: expected at most {limit} bytes, found more")]
    TooLarge {
        /// The path and query of the request.
        path: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The response cannot be parsed.
    #[error("{path}: expected {expected}, found something else")]
    Malformed {
        /// The path and query of the request.
        path: String,
        /// A description of the expected response.
        expected: &'static str,
    },
}

impl ApiError {
    /// The HTTP status code, if the server responded with an error.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Rejected { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// A client of the API server.
#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
    timeout: Duration,
}

impl ApiClient {
    /// A client whose requests time out after `timeout`. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// If certificates, keys or a proxy cannot be used.
    pub fn new(connection: &Connection, timeout: Duration) -> Result<Self, ConnectionError> {
        let client = connection.client()?;
        Ok(Self { client, timeout })
    }

    /// The timeout of a request.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Gets an object or a list.
    ///
    /// # Errors
    /// If the request fails or the response is not JSON.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.request_json("GET", path, None).await
    }

    /// Gets an object or a list as unparsed bytes.
    ///
    /// # Errors
    /// If the request fails or the response exceeds the limit.
    pub async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        self.request_bytes("GET", path, None).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// If the request fails or is rejected.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.request_json("POST", path, Some(("application/json", body)))
            .await
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// If the request fails or is rejected.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.request_json("PUT", path, Some(("application/json", body)))
            .await
    }

    /// Changes fields of an object with a JSON merge patch.
    ///
    /// # Errors
    /// If the request fails or is rejected.
    pub async fn merge_patch(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        let content = ("application/merge-patch+json", body);
        self.request_json("PATCH", path, Some(content)).await
    }

    /// Patches an object of a built-in kind: lists with a merge key, such as the conditions of a Node, are merged by it.
    ///
    /// # Errors
    /// If the request fails, the server rejects it, or the response is malformed.
    pub async fn strategic_merge_patch(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        let content = ("application/strategic-merge-patch+json", body);
        self.request_json("PATCH", path, Some(content)).await
    }

    async fn request_json(
        &self,
        method: &'static str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, ApiError> {
        let bytes = self.request_bytes(method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|_| ApiError::Malformed {
            path: path.to_owned(),
            expected: "JSON",
        })
    }

    async fn request_bytes(
        &self,
        method: &'static str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Vec<u8>, ApiError> {
        let request = async {
            let response = self.send(method, path, body).await?;
            read(response.into_body(), path, MAX_BYTES).await
        };
        timeout(self.timeout, request)
            .await
            .unwrap_or(Err(ApiError::TimedOut(self.timeout)))
    }

    /// Opens a response that is read line by line, such as a watch. The timeout applies to its beginning.
    pub(crate) async fn lines(&self, path: &str) -> Result<LineStream, ApiError> {
        let response = timeout(self.timeout, self.send("GET", path, None))
            .await
            .unwrap_or(Err(ApiError::TimedOut(self.timeout)))?;
        Ok(LineStream {
            body: response.into_body(),
            path: path.to_owned(),
            buffer: Vec::new(),
            searched: 0,
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
            .map_err(|_| ApiError::Malformed {
                path: path.to_owned(),
                expected: "a path",
            })?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| ApiError::Unreachable(error_chain(&error)))?;
        let code = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        // If the body cannot be read, the error has only the status code.
        let bytes = read(response.into_body(), path, MAX_BYTES).await;
        let status: Value = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default();
        Err(ApiError::Rejected {
            method,
            path: path.to_owned(),
            code,
            message: truncate(message, MAX_MESSAGE),
        })
    }
}

async fn read(mut body: Body, path: &str, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::Unreachable(error_chain(&error)))?;
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

/// A response that is read line by line while the server sends it.
pub(crate) struct LineStream {
    body: Body,
    path: String,
    buffer: Vec<u8>,
    /// Bytes of the buffer that contain no line feed.
    searched: usize,
}

impl LineStream {
    /// The next line; `None` at the end. An incomplete last line is dropped. Fails if no data arrives for `idle`.
    pub(crate) async fn next(&mut self, idle: Duration) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
                line.pop();
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            let frame = timeout(idle, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| ApiError::TimedOut(idle))? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| ApiError::Unreachable(error_chain(&error)))?;
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

/// The text of an error and its causes, without the output of a credential plugin, which may contain secrets.
pub(crate) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut chain = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(AuthError::AuthExecRun { cmd, out }) = error.downcast_ref() {
            return format!("the credential plugin {cmd} failed: {}", out.status);
        }
        if let Some(AuthError::AuthExecParse(_)) = error.downcast_ref() {
            return "the credential plugin printed no valid ExecCredential".to_owned();
        }
        if let Some(kube::Error::Service(_) | kube::Error::HyperError(_)) = error.downcast_ref() {
            next = error.source();
            continue;
        }
        let text = error.to_string();
        // The text of many errors already ends with their cause.
        if !chain.ends_with(&text) {
            if !chain.is_empty() {
                chain.push_str(": ");
            }
            chain.push_str(&text);
        }
        next = error.source();
    }
    truncate(&chain, MAX_MESSAGE)
}

/// Cuts a text to at most `bytes` bytes, at a character boundary.
#[must_use]
pub fn truncate(text: &str, bytes: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(MARK.len()));
    format!("{}{MARK}", text.get(..end).unwrap_or_default())
}

/// Percent-encodes a value for a path or a query.
#[must_use]
pub fn percent_encode(text: &str) -> String {
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
    fn a_text_is_truncated_between_characters_and_within_the_limit() {
        assert_eq!(truncate("short", 5), "short");
        assert_eq!(truncate("ääää", 7), "ää…");
        for bytes in 3..20 {
            assert!(truncate("añb…c𝄞d—e", bytes).len() <= bytes);
        }
    }

    #[test]
    fn an_encoded_value_cannot_end_a_path_or_a_query() {
        assert_eq!(percent_encode("a/../b?c&d=e%"), "a%2F..%2Fb%3Fc%26d%3De%25");
    }
}
