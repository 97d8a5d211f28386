//! [`HttpRequest`]: an HTTP/1.1 request within limits of size and time.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The most headers of a request.
const HEADERS: usize = 64;
/// How much is read at a time.
const CHUNK: usize = 16 << 10;

/// A request, with the headers that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// Path and query as they were sent.
    pub(crate) target: String,
    pub(crate) host: Option<String>,
    /// Every `Origin`: one that is not ours denies the request.
    pub(crate) origin: Vec<String>,
    pub(crate) cookie: Option<String>,
    pub(crate) fetch_site: Option<String>,
    /// Whether the client wants the connection closed.
    pub(crate) close: bool,
    pub(crate) body: Vec<u8>,
    length: Option<usize>,
    is_chunked: bool,
}

/// Why a request cannot be answered.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The client closed the connection, or it broke.
    Closed,
    /// The request did not arrive in time.
    TooSlow,
    /// The request is malformed or too large: a status and a message.
    Bad(u16, &'static str),
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TooSlow,
            _ => Self::Closed,
        }
    }
}

/// Limits of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    pub(crate) head_bytes: usize,
    pub(crate) body_bytes: usize,
    /// From the first byte to the last one.
    pub(crate) time: Duration,
}

/// Reads the requests of a connection one after the other.
#[derive(Debug)]
pub(crate) struct RequestReader<'a> {
    stream: &'a TcpStream,
    /// What arrived and belongs to no request yet.
    buffer: Vec<u8>,
    limits: RequestLimits,
}

impl<'a> RequestReader<'a> {
    pub(crate) fn new(stream: &'a TcpStream, limits: RequestLimits) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            limits,
        }
    }

    /// Waits this long for the first byte of a request.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<(), RequestError> {
        match self.buffer.is_empty() {
            true => self.fill(Instant::now() + time),
            false => Ok(()),
        }
    }

    /// Reads one request.
    pub(crate) fn read(&mut self) -> Result<HttpRequest, RequestError> {
        let deadline = Instant::now() + self.limits.time;
        let (mut request, head) = loop {
            if let Some(parsed) = parse(&self.buffer)? {
                break parsed;
            }
            if self.buffer.len() > self.limits.head_bytes {
                return Err(RequestError::Bad(431, "the headers are too large"));
            }
            self.fill(deadline)?;
        };
        if head > self.limits.head_bytes {
            return Err(RequestError::Bad(431, "the headers are too large"));
        }
        if request.is_chunked {
            return Err(RequestError::Bad(411, "expected a Content-Length"));
        }
        let length = request.length.unwrap_or(0);
        if length > self.limits.body_bytes {
            return Err(RequestError::Bad(413, "the question is too large"));
        }
        while self.buffer.len() < head + length {
            self.fill(deadline)?;
        }
        let rest = self.buffer.split_off(head + length);
        request.body = self.buffer.split_off(head);
        self.buffer = rest;
        Ok(request)
    }

    /// Reads some bytes until a deadline.
    fn fill(&mut self, deadline: Instant) -> Result<(), RequestError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RequestError::TooSlow);
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; CHUNK];
        let mut stream = self.stream;
        match stream.read(&mut chunk)? {
            0 => Err(RequestError::Closed),
            read => {
                self.buffer.extend_from_slice(&chunk[..read]);
                Ok(())
            }
        }
    }
}

/// The head of a request and its length; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(HttpRequest, usize)>, RequestError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(RequestError::Bad(431, "there are too many headers"));
        }
        Err(_) => return Err(RequestError::Bad(400, "expected an HTTP/1.1 request")),
    };
    let mut request = HttpRequest {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        close: parsed.version == Some(0),
        ..HttpRequest::default()
    };
    for header in parsed.headers.iter() {
        if !request.set_header(header.name, header.value) {
            return Err(RequestError::Bad(400, "a header is repeated or malformed"));
        }
    }
    Ok(Some((request, head)))
}

impl HttpRequest {
    /// Takes a header; false if it is invalid, or repeated where only one may be.
    pub(crate) fn set_header(&mut self, name: &str, value: &[u8]) -> bool {
        let Ok(value) = std::str::from_utf8(value) else {
            // Headers that are not read may have any bytes.
            return ![
                "host",
                "origin",
                "cookie",
                "content-length",
                "sec-fetch-site",
            ]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own));
        };
        let text = || value.trim().to_owned();
        let has = |word: &str| {
            let mut words = value.split(',').map(str::trim);
            words.any(|own| own.eq_ignore_ascii_case(word))
        };
        match name.to_ascii_lowercase().as_str() {
            "host" => self.host.replace(text()).is_none(),
            "origin" => {
                self.origin.push(text());
                true
            }
            "cookie" => self.cookie.replace(text()).is_none(),
            "sec-fetch-site" => self.fetch_site.replace(text()).is_none(),
            "content-length" => {
                let digits = value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse().ok().filter(|_| digits);
                length.is_some() && std::mem::replace(&mut self.length, length).is_none()
            }
            "transfer-encoding" => {
                self.is_chunked = true;
                true
            }
            "connection" => {
                self.close |= has("close");
                true
            }
            _ => true,
        }
    }

    /// The path without the query, and the query.
    pub(crate) fn path_and_query(&self) -> (&str, &str) {
        self.target.split_once('?').unwrap_or((&self.target, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(bytes: &[u8]) -> Option<u16> {
        match parse(bytes) {
            Err(RequestError::Bad(status, _)) => Some(status),
            _ => None,
        }
    }

    #[test]
    fn a_head_is_complete_only_with_its_blank_line() {
        let whole = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n";
        let (request, head) = parse(whole).expect("valid").expect("complete");
        assert_eq!(head, whole.len());
        assert_eq!(request.path_and_query(), ("/a", "b=c"));
        assert!(request.close);
        for end in 0..whole.len() {
            assert!(matches!(parse(&whole[..end]), Ok(None)), "{end}");
        }
    }

    #[test]
    fn malformed_and_ambiguous_requests_are_rejected() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                400,
            ),
            ("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400),
            (
                "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                400,
            ),
            ("SSH-2.0-x\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: \u{7f}\r\n\r\n", 400),
        ] {
            assert_eq!(status(head.as_bytes()), Some(expected), "{head}");
        }
        let many = "A: b\r\n".repeat(HEADERS + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        assert_eq!(status(many.as_bytes()), Some(431));
    }
}
