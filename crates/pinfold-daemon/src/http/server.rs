//! The server: accepts connections, within limits, and hands requests on.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one client can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Further ones are closed at once. As many requests are read and answered at a time, whatever
    /// connection they come by; further ones wait.
    pub connections: usize,
    /// The bytes of a request's first line and headers.
    pub head: usize,
    /// The bytes of a request's body.
    pub body: usize,
    /// How long a request may take to arrive.
    pub arrival: Duration,
    /// How long a connection may live; then it ends with the request it is at.
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
pub struct Asked {
    /// What is to be done.
    pub method: hyper::Method,
    /// With what, without the query.
    pub path: String,
    /// What comes after the question mark.
    pub query: String,
    /// What was sent along.
    pub body: Bytes,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its number.
    pub status: StatusCode,
    /// What the body is, as HTTP calls it.
    pub content: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// Who answers. Runs on a thread that may block.
pub trait Answers: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, asked: &Asked) -> Answer;

    /// The answer to a request that did not arrive as it should.
    fn reject(&self, status: StatusCode, error: &str) -> Answer;
}

/// What connections come from.
pub trait Listener: Send + Sync + 'static {
    /// What arrives.
    type Raw: Send + 'static;
    /// What can be spoken over.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one who wants to speak.
    fn next(&self) -> impl Future<Output = io::Result<Self::Raw>> + Send;

    /// Agrees with a client on how to speak, on a task of its own, in the time that a request may take to arrive.
    fn open(&self, raw: Self::Raw) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// What was agreed on.
    fn spoken(_stream: &Self::Stream) -> Spoken {
        Spoken::Http1
    }
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// One request after the other.
    Http1,
    /// Many requests at a time over one connection.
    Http2,
}

impl Listener for UnixListener {
    type Raw = tokio::net::UnixStream;
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        Ok(self.accept().await?.0)
    }

    async fn open(&self, raw: Self::Raw) -> io::Result<Self::Stream> {
        Ok(raw)
    }
}

impl Listener for TcpListener {
    type Raw = tokio::net::TcpStream;
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        let stream = self.accept().await?.0;
        // Answers are written as a whole; waiting for more of them only costs time.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn open(&self, raw: Self::Raw) -> io::Result<Self::Stream> {
        Ok(raw)
    }
}

/// Serves until the future is dropped or the socket fails.
///
/// # Errors
/// If connections can no longer be accepted.
pub async fn serve<A: Answers + ?Sized>(
    listener: impl Listener,
    answers: Arc<A>,
    limits: Limits,
) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let desk = Desk {
        answers,
        limits,
        seats: Arc::new(Semaphore::new(limits.connections)),
    };
    let listener = Arc::new(listener);
    loop {
        let raw = match listener.next().await {
            Ok(raw) => raw,
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
        let (desk, listener) = (desk.clone(), listener.clone());
        tokio::spawn(accepted(listener, raw, desk, permit));
    }
}

/// Opens a connection and speaks with who is there. Whatever goes wrong with it is its client's affair.
async fn accepted<L: Listener, A: Answers + ?Sized>(
    listener: Arc<L>,
    raw: L::Raw,
    desk: Desk<A>,
    _permit: OwnedSemaphorePermit,
) {
    let opened = tokio::time::timeout(desk.limits.arrival, listener.open(raw)).await;
    if let Ok(Ok(stream)) = opened {
        match L::spoken(&stream) {
            Spoken::Http1 => one_by_one(stream, desk).await,
            Spoken::Http2 => at_a_time(stream, desk).await,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    let no_descriptors = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    no_descriptors || error.kind() == io::ErrorKind::ConnectionAborted
}

/// Who answers, and within which limits.
struct Desk<A: ?Sized> {
    answers: Arc<A>,
    limits: Limits,
    /// One for each request that is read or answered.
    seats: Arc<Semaphore>,
}

impl<A: ?Sized> Clone for Desk<A> {
    fn clone(&self) -> Self {
        Self {
            answers: self.answers.clone(),
            limits: self.limits,
            seats: self.seats.clone(),
        }
    }
}

/// Serves a connection until it ends. When its time is over it may finish the requests it is at, and no other.
async fn for_its_life<C: Future>(connection: C, life: Duration, shut: impl FnOnce(Pin<&mut C>)) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::time::timeout(life, connection.as_mut()).await;
    if ended.is_err() {
        shut(connection.as_mut());
        let _ = tokio::time::timeout(life, connection).await;
    }
}

/// Speaks HTTP/1.1 with one client.
async fn one_by_one<S, A>(stream: S, desk: Desk<A>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Answers + ?Sized,
{
    let limits = desk.limits;
    let spoken = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.arrival)
        .max_buf_size(limits.head.max(8192))
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service(desk));
    for_its_life(spoken, limits.life, http1::Connection::graceful_shutdown).await;
}

/// Speaks HTTP/2 with one client.
async fn at_a_time<S, A>(stream: S, desk: Desk<A>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Answers + ?Sized,
{
    /// What a client may send of one request, and of all, before it has to wait for us to read it.
    const WINDOWS: (u32, u32) = (256 << 10, 1 << 20);
    let limits = desk.limits;
    let streams = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let head = u32::try_from(limits.head).unwrap_or(u32::MAX);
    let spoken = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(head)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .keep_alive_interval(Some(limits.arrival))
        .serve_connection(TokioIo::new(stream), service(desk));
    for_its_life(spoken, limits.life, http2::Connection::graceful_shutdown).await;
}

/// Answers the requests of a connection.
fn service<A: Answers + ?Sized>(
    desk: Desk<A>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send + 'static,
> {
    service_fn(move |request| {
        let desk = desk.clone();
        async move {
            // Never closed, so there is always one in the end.
            let _seat = desk.seats.acquire().await;
            let answer = respond(desk.answers.clone(), request, desk.limits).await;
            Ok::<_, Infallible>(response(answer))
        }
    })
}

async fn respond<A: Answers + ?Sized>(
    answers: Arc<A>,
    request: Request<Incoming>,
    limits: Limits,
) -> Answer {
    let (head, body) = request.into_parts();
    let declared = head.headers.get(CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limits.body) {
        let error = format!("the body is larger than {} bytes", limits.body);
        return answers.reject(StatusCode::PAYLOAD_TOO_LARGE, &error);
    }
    let body = Limited::new(body, limits.body).collect();
    let body = match tokio::time::timeout(limits.arrival, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let error = format!("the body is larger than {} bytes", limits.body);
            return answers.reject(StatusCode::PAYLOAD_TOO_LARGE, &error);
        }
        Ok(Err(_)) => return answers.reject(StatusCode::BAD_REQUEST, "the body is not whole"),
        Err(_) => return answers.reject(StatusCode::REQUEST_TIMEOUT, "the body did not arrive"),
    };
    let asked = Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body,
    };
    let rejects = answers.clone();
    let answered = tokio::task::spawn_blocking(move || answers.answer(&asked)).await;
    answered.unwrap_or_else(|_| {
        rejects.reject(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the daemon made a mistake",
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
