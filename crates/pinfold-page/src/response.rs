//! HTTP responses, each with the headers that keep the page safe.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Only our own scripts and styles, no plugins, no frames, no forms, no other addresses. Markup is made from text in one
/// place only, which reads pictures and copies what it knows.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types picture";

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// A response with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct HttpResponse<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: &'a [u8],
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl<'a> HttpResponse<'a> {
    pub(crate) fn new(status: u16, content_type: &'static str, body: &'a [u8]) -> Self {
        Self {
            status,
            content_type,
            body,
            headers: Vec::new(),
        }
    }

    /// Writes the response; without the body for HEAD. The client has this long to take it.
    pub(crate) fn write(
        &self,
        stream: &mut TcpStream,
        time: Duration,
        is_head: bool,
        close: bool,
    ) -> io::Result<()> {
        let mut head = head(self.status, self.content_type, &self.headers);
        if close {
            head.push_str("Connection: close\r\n");
        }
        let _ = write!(head, "Content-Length: {}\r\n\r\n", self.body.len());
        let mut bytes = head.into_bytes();
        if !is_head {
            bytes.extend_from_slice(self.body);
        }
        write_within(stream, &bytes, time)
    }
}

/// Writes everything within a time, however steadily the client takes a little of it.
///
/// # Errors
/// If the connection breaks, or the time is over.
pub(crate) fn write_within(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    time: Duration,
) -> io::Result<()> {
    let deadline = Instant::now() + time;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The status line and the headers that all responses have, without the blank line.
pub(crate) fn head(status: u16, content_type: &str, headers: &[(&'static str, String)]) -> String {
    let mut head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n",
        reason(status)
    );
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
