//! [`AgentClient`]: asks the agent of this node, through its socket.
//!
//! One request a connection, HTTP/1.1, answers in JSON; sizes and times are limited.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_agent_api::SOCKET;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::exit::{Failure, REJECTED};
use crate::output;

/// No answer is larger: a page of the journal is a few megabytes at most.
const LARGEST: u64 = 64 << 20;
/// How long the agent may take. Device plugins may be asked meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the agent is.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArg {
    /// The socket of the agent
    #[arg(long, value_name = "SOCKET", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
}

/// The agent behind a socket.
#[derive(Clone, Debug)]
pub(crate) struct AgentClient {
    socket: PathBuf,
}

/// Why the agent did not do what was asked.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It said so, with this status.
    No {
        status: u16,
        error: String,
        hint: String,
        explanation: Vec<String>,
    },
    /// It could not be asked.
    Lost(String),
}

#[derive(Deserialize)]
struct Told {
    error: String,
    #[serde(default)]
    hint: String,
    #[serde(default)]
    explanation: Vec<String>,
}

impl AgentClient {
    /// The agent behind this socket, whether it is there or not.
    pub(crate) fn new(socket: &Path) -> Self {
        let socket = socket.to_owned();
        Self { socket }
    }

    /// The agent behind this socket; `None` if nobody answers there.
    pub(crate) fn find(socket: &Path) -> Option<Self> {
        UnixStream::connect(socket).ok().map(|_| Self::new(socket))
    }

    /// Asks for something.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Unanswered> {
        self.ask("GET", path, b"")
    }

    /// Asks for something to be done.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<T, Unanswered> {
        let lost = |error: io::Error| {
            let socket = self.socket.display();
            Unanswered::Lost(format!("cannot ask the agent at {socket}: {error}"))
        };
        let answer = self.exchange(method, path, body).map_err(lost)?;
        let garbled = || lost(io::Error::other("its answer makes no sense"));
        let (status, body) = parse(&answer).ok_or_else(garbled)?;
        match status {
            200..=299 => serde_json::from_slice(body).map_err(|_| garbled()),
            _ => {
                let told: Told = serde_json::from_slice(body).map_err(|_| garbled())?;
                Err(Unanswered::No {
                    status,
                    error: told.error,
                    hint: told.hint,
                    explanation: told.explanation,
                })
            }
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        // An agent that rejects a body may close before it has read it all; its answer is there all the same.
        let sent = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        match (stream.take(LARGEST).read_to_end(&mut answer), sent) {
            (Ok(_), Ok(())) => Ok(answer),
            (_, Err(error)) if answer.is_empty() => Err(error),
            (Err(error), _) if answer.is_empty() => Err(error),
            _ => Ok(answer),
        }
    }
}

/// The status and the body of an answer; `None` if it is not whole.
fn parse(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
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

impl Unanswered {
    /// Tells it, and how the command ends.
    pub(crate) fn end(self) -> Result<std::process::ExitCode, Failure> {
        match self {
            Unanswered::No {
                status: 409,
                explanation,
                error,
                hint,
            } => {
                let told = match explanation.is_empty() {
                    true => format!("{error}{}", after_line(&hint)),
                    false => explanation.join("\n"),
                };
                output::remark(&told);
                Ok(REJECTED.into())
            }
            other => Err(other.into()),
        }
    }
}

fn after_line(hint: &str) -> String {
    match hint {
        "" => String::new(),
        hint => format!("\n  {hint}"),
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Lost(told) => Failure::Environment(told),
            Unanswered::No {
                status,
                error,
                hint,
                ..
            } => {
                let told = format!("{error}{}", after_line(&hint));
                match status {
                    400..=499 => Failure::BadInput(told),
                    _ => Failure::Environment(told),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
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
