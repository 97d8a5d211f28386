//! The server: accepts connections, within limits, and hands requests on.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

/// What one client can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Further ones are closed at once.
    pub connections: usize,
    /// The bytes of a request's first line and headers.
    pub head: usize,
    /// The bytes of a request's body.
    pub body: usize,
    /// How long a request may take to arrive.
    pub arrival: Duration,
    /// How long a connection may live.
    pub life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: 16 << 10,
            body: 1 << 20,
            arrival: Duration::from_secs(10),
            life: Duration::from_secs(120),
        }
    }
}

/// A request that has arrived as a whole.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: hyper::Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) body: Bytes,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content: &'static str,
    pub(super) body: Vec<u8>,
}

/// Who answers. Runs on a thread that may block.
pub(super) trait Answers: Send + Sync + 'static {
    fn answer(&self, asked: &Asked) -> Answer;
    /// The answer to a request that did not arrive as it should.
    fn refuse(&self, status: StatusCode, error: &str) -> Answer;
}

/// Serves the API until the future is dropped or the socket fails.
///
/// # Errors
/// If connections can no longer be accepted.
pub async fn serve_unix(
    listener: UnixListener,
    api: Arc<super::Api>,
    limits: Limits,
) -> io::Result<()> {
    serve(listener, api, limits).await
}

/// Serves metrics and probes until the future is dropped or the socket fails.
///
/// # Errors
/// If connections can no longer be accepted.
pub async fn serve_tcp(
    listener: TcpListener,
    probes: Arc<super::Probes>,
    limits: Limits,
) -> io::Result<()> {
    serve(listener, probes, limits).await
}

/// What connections come from.
trait Listener: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

impl Listener for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

async fn serve<A: Answers>(
    listener: impl Listener,
    answers: Arc<A>,
    limits: Limits,
) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(limits.connections));
    loop {
        let stream = match listener.next().await {
            Ok(stream) => stream,
            // The client went away, or there are no descriptors left for now.
            Err(error) if is_passing(&error) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            continue;
        };
        let answers = answers.clone();
        tokio::spawn(async move {
            let _permit = permit;
            // Whatever goes wrong with a connection is its client's affair.
            let _ = tokio::time::timeout(limits.life, connection(stream, answers, limits)).await;
        });
    }
}

fn is_passing(error: &io::Error) -> bool {
    let no_descriptors = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    no_descriptors || error.kind() == io::ErrorKind::ConnectionAborted
}

fn connection<S, A>(
    stream: S,
    answers: Arc<A>,
    limits: Limits,
) -> impl Future<Output = hyper::Result<()>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Answers,
{
    let service = service_fn(move |request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(response(respond(answers, request, limits).await)) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.arrival)
        .max_buf_size(limits.head.max(8192))
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service)
}

async fn respond<A: Answers>(
    answers: Arc<A>,
    request: Request<Incoming>,
    limits: Limits,
) -> Answer {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, limits.body).collect();
    let body = match tokio::time::timeout(limits.arrival, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let error = format!("the body is larger than {} bytes", limits.body);
            return answers.refuse(StatusCode::PAYLOAD_TOO_LARGE, &error);
        }
        Ok(Err(_)) => return answers.refuse(StatusCode::BAD_REQUEST, "the body is not whole"),
        Err(_) => return answers.refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive"),
    };
    let asked = Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body,
    };
    let refuses = answers.clone();
    let answered = tokio::task::spawn_blocking(move || answers.answer(&asked)).await;
    answered.unwrap_or_else(|_| {
        refuses.refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the agent made a mistake",
        )
    })
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let content = HeaderValue::from_static(answer.content);
    response.headers_mut().insert(CONTENT_TYPE, content);
    response
}
