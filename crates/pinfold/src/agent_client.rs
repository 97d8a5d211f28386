//! [`AgentClient`]: HTTP/1.1 requests to the node agent over its unix socket.
//!
//! One request per connection, responses in JSON, limits on size and time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_agent_api::SOCKET;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::exit::{Failure, REJECTED};
use crate::output;

/// The largest response that is read. A page of the journal has a few megabytes at most.
const MAX_RESPONSE: u64 = 64 << 20;
/// The timeout of a request. The agent may have to call device plugins before it responds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The flag `--socket`.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArg {
    /// The agent's socket
    #[arg(long, value_name = "SOCKET", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
}

/// A client of the agent that listens on a socket.
#[derive(Clone, Debug)]
pub(crate) struct AgentClient {
    socket: PathBuf,
    timeout: Duration,
}

/// A request that failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The agent responded with an error status.
    Status {
        status: u16,
        error: String,
        hint: String,
        explanation: Vec<String>,
    },
    /// The agent could not be reached, or its response is invalid.
    Connection(String),
}

/// The body of a response with an error status.
#[derive(Deserialize)]
struct ErrorBody {
    error: String,
    #[serde(default)]
    hint: String,
    #[serde(default)]
    explanation: Vec<String>,
}

impl AgentClient {
    /// A client for this socket. Nothing is connected yet.
    pub(crate) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            timeout: TIMEOUT,
        }
    }

    /// The same client with another timeout.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// A client for this socket if a process listens there.
    pub(crate) fn connect(socket: &Path) -> Option<Self> {
        UnixStream::connect(socket).ok().map(|_| Self::new(socket))
    }

    /// Sends a GET request.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RequestError> {
        self.send("GET", path, b"")
    }

    /// Sends a request and reads the JSON of its response.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<T, RequestError> {
        let failed = |error: io::Error| {
            let socket = self.socket.display();
            RequestError::Connection(format!(
                "cannot connect to the agent at {socket}: {error}\n  is it running? systemctl status pinfold-agent"
            ))
        };
        let response = self.exchange(method, path, body).map_err(failed)?;
        let invalid = || {
            let socket = self.socket.display();
            RequestError::Connection(format!("invalid response from the agent at {socket}"))
        };
        let (status, body) = parse(&response).ok_or_else(invalid)?;
        match status {
            200..=299 => serde_json::from_slice(body).map_err(|_| invalid()),
            _ => {
                let body: ErrorBody = serde_json::from_slice(body).map_err(|_| invalid())?;
                Err(RequestError::Status {
                    status,
                    error: body.error,
                    hint: body.hint,
                    explanation: body.explanation,
                })
            }
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        // An agent that rejects a body may close the connection before it has read all of it; its response can be read.
        let sent = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body));
        let mut response = Vec::new();
        match (stream.take(MAX_RESPONSE).read_to_end(&mut response), sent) {
            (Ok(_), Ok(())) => Ok(response),
            (_, Err(error)) if response.is_empty() => Err(error),
            (Err(error), _) if response.is_empty() => Err(error),
            _ => Ok(response),
        }
    }
}

/// The status and body of a response; `None` if it is incomplete or not HTTP/1.1.
fn parse(response: &[u8]) -> Option<(u16, &[u8])> {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (&response[..end], &response[end + 4..]);
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let mut length = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let body = body.get(..length?)?;
    Some((status.parse().ok()?, body))
}

impl RequestError {
    /// The rejection of the pod that stands for a command, in words for the command.
    pub(crate) fn about_command(self, name: &str) -> Self {
        let Self::Status {
            status: status @ 409,
            error,
            hint,
            explanation,
        } = self
        else {
            return self;
        };
        // The first line, up to the colon, names the pod and its container.
        let subject = explanation
            .iter()
            .position(|line| line.ends_with(':'))
            .map_or(0, |last| last + 1);
        let rest = explanation.into_iter().skip(subject);
        let rest = rest.map(|line| line.replace(" of container command", ""));
        Self::Status {
            status,
            error,
            hint,
            explanation: std::iter::once(format!("cannot run {name}:"))
                .chain(rest)
                .collect(),
        }
    }

    /// The exit code of a rejection (409) after printing its explanation; any other error is a failure.
    pub(crate) fn into_exit_code(self) -> Result<std::process::ExitCode, Failure> {
        match self {
            RequestError::Status {
                status: 409,
                explanation,
                error,
                hint,
            } => {
                let text = match explanation.is_empty() {
                    true => format!("{error}{}", on_next_line(&hint)),
                    false => explanation.join("\n"),
                };
                output::remark(&text);
                Ok(REJECTED.into())
            }
            other => Err(other.into()),
        }
    }
}

fn on_next_line(hint: &str) -> String {
    match hint {
        "" => String::new(),
        hint => format!("\n  {hint}"),
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Connection(text) => Failure::Environment(text),
            RequestError::Status {
                status,
                error,
                hint,
                ..
            } => {
                let text = format!("{error}{}", on_next_line(&hint));
                match status {
                    400..=499 => Failure::BadInput(text),
                    _ => Failure::Environment(text),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_and_malformed_responses_are_rejected() {
        let whole =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 3\r\n\r\n{}\n";
        assert_eq!(parse(whole), Some((200, &b"{}\n"[..])));
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        for nonsense in [
            "HTTP/1.1 2\r\n\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        ] {
            assert_eq!(parse(nonsense.as_bytes()), None, "{nonsense}");
        }
    }
}
