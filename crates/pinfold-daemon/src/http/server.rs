//! The server: accepts connections within limits, reads whole requests and passes them to a [`Handler`].

use std::collections::VecDeque;
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
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at a time; further ones are closed. Also the number of requests that are read and handled at a time
    /// over all connections; further ones wait.
    pub connections: usize,
    /// Bytes of a request's first line and headers.
    pub header_bytes: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Time for a request to arrive.
    pub request_timeout: Duration,
    /// Age at which a connection accepts no further requests; it ends when the current ones are answered.
    pub connection_lifetime: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            header_bytes: 16 << 10,
            body_bytes: 1 << 20,
            request_timeout: Duration::from_secs(10),
            connection_lifetime: Duration::from_secs(120),
        }
    }
}

/// A request with its whole body.
#[derive(Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: hyper::Method,
    /// The path without the query.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The body.
    pub body: Bytes,
}

/// A response with its whole body.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: StatusCode,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// Handles the requests of a server. Runs on a thread that may block.
pub trait Handler: Send + Sync + 'static {
    /// The response to a request.
    fn handle(&self, request: &HttpRequest) -> HttpResponse;

    /// The response to a request that exceeds a limit or did not arrive completely.
    fn error_response(&self, status: StatusCode, message: &str) -> HttpResponse;
}

/// Accepts connections.
pub trait Listener: Send + Sync + 'static {
    /// An accepted connection before its handshake.
    type Raw: Send + 'static;
    /// A connection after its handshake.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts the next connection.
    fn accept_raw(&self) -> impl Future<Output = io::Result<Self::Raw>> + Send;

    /// Performs the TLS handshake, if there is one. Runs on its own task, within the time limit of a request.
    fn handshake(&self, raw: Self::Raw) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// The HTTP version that the handshake negotiated.
    fn http_version(_stream: &Self::Stream) -> HttpVersion {
        HttpVersion::Http1
    }
}

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1: one request at a time.
    Http1,
    /// HTTP/2: concurrent requests over one connection.
    Http2,
}

impl Listener for UnixListener {
    type Raw = tokio::net::UnixStream;
    type Stream = tokio::net::UnixStream;

    async fn accept_raw(&self) -> io::Result<Self::Raw> {
        Ok(self.accept().await?.0)
    }

    async fn handshake(&self, raw: Self::Raw) -> io::Result<Self::Stream> {
        Ok(raw)
    }
}

impl Listener for TcpListener {
    type Raw = tokio::net::TcpStream;
    type Stream = tokio::net::TcpStream;

    async fn accept_raw(&self) -> io::Result<Self::Raw> {
        let stream = self.accept().await?.0;
        // Responses are written in one piece: Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn handshake(&self, raw: Self::Raw) -> io::Result<Self::Stream> {
        Ok(raw)
    }
}

/// Serves until the future is dropped or the socket fails.
///
/// # Errors
/// If connections can no longer be accepted.
pub async fn serve<H: Handler + ?Sized>(
    listener: impl Listener,
    handler: Arc<H>,
    limits: HttpLimits,
) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let server = Server {
        handler,
        limits,
        slots: Arc::new(Semaphore::new(limits.connections)),
    };
    let listener = Arc::new(listener);
    loop {
        let raw = accept(&*listener).await?;
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            continue;
        };
        let (server, listener) = (server.clone(), listener.clone());
        let connection = serve_connection(listener, raw, server);
        tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
    }
}

/// Like [`serve`], but a new connection replaces the oldest one when there are too many: slow or idle clients cannot keep
/// others out. For requests that are answered at once, such as health probes.
///
/// # Errors
/// If connections can no longer be accepted.
pub async fn serve_probes<H: Handler + ?Sized>(
    listener: impl Listener,
    handler: Arc<H>,
    limits: HttpLimits,
) -> io::Result<()> {
    let server = Server {
        handler,
        limits,
        slots: Arc::new(Semaphore::new(limits.connections)),
    };
    let listener = Arc::new(listener);
    let mut open = VecDeque::new();
    loop {
        let raw = accept(&*listener).await?;
        open.retain(|connection: &JoinHandle<()>| !connection.is_finished());
        while open.len() >= limits.connections.max(1) {
            if let Some(oldest) = open.pop_front() {
                oldest.abort();
            }
        }
        let (server, listener) = (server.clone(), listener.clone());
        open.push_back(tokio::spawn(serve_connection(listener, raw, server)));
    }
}

/// The next connection. Waits if it cannot be accepted now.
async fn accept<L: Listener>(listener: &L) -> io::Result<L::Raw> {
    loop {
        match listener.accept_raw().await {
            Err(error) if is_transient(&error) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            accepted => return accepted,
        }
    }
}

/// Performs the handshake and serves the connection. Errors end only this connection.
async fn serve_connection<L: Listener, H: Handler + ?Sized>(
    listener: Arc<L>,
    raw: L::Raw,
    server: Server<H>,
) {
    let handshake = listener.handshake(raw);
    let done = tokio::time::timeout(server.limits.request_timeout, handshake).await;
    if let Ok(Ok(stream)) = done {
        match L::http_version(&stream) {
            HttpVersion::Http1 => serve_http1(stream, server).await,
            HttpVersion::Http2 => serve_http2(stream, server).await,
        }
    }
}

/// Whether accepting can succeed later: the client closed the connection, or the process is out of file descriptors.
fn is_transient(error: &io::Error) -> bool {
    let no_descriptors = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    no_descriptors || error.kind() == io::ErrorKind::ConnectionAborted
}

/// The state that all connections of a server share.
struct Server<H: ?Sized> {
    handler: Arc<H>,
    limits: HttpLimits,
    /// One permit for each request that is read or handled.
    slots: Arc<Semaphore>,
}

impl<H: ?Sized> Clone for Server<H> {
    fn clone(&self) -> Self {
        Self {
            handler: self.handler.clone(),
            limits: self.limits,
            slots: self.slots.clone(),
        }
    }
}

/// Serves a connection for its lifetime, then lets it finish its current requests.
async fn serve_for<C: Future>(
    connection: C,
    lifetime: Duration,
    shut_down: impl FnOnce(Pin<&mut C>),
) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::time::timeout(lifetime, connection.as_mut()).await;
    if ended.is_err() {
        shut_down(connection.as_mut());
        let _ = tokio::time::timeout(lifetime, connection).await;
    }
}

async fn serve_http1<S, H>(stream: S, server: Server<H>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler + ?Sized,
{
    let limits = server.limits;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_timeout)
        .max_buf_size(limits.header_bytes.max(8192))
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service(server));
    let shut_down = http1::Connection::graceful_shutdown;
    serve_for(connection, limits.connection_lifetime, shut_down).await;
}

async fn serve_http2<S, H>(stream: S, server: Server<H>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler + ?Sized,
{
    /// Bytes that a client may send before the server reads them: of one request, and of all requests together.
    const WINDOWS: (u32, u32) = (256 << 10, 1 << 20);
    let limits = server.limits;
    let streams = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let header_bytes = u32::try_from(limits.header_bytes).unwrap_or(u32::MAX);
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(header_bytes)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .keep_alive_interval(Some(limits.request_timeout))
        .serve_connection(TokioIo::new(stream), service(server));
    let shut_down = http2::Connection::graceful_shutdown;
    serve_for(connection, limits.connection_lifetime, shut_down).await;
}

/// The hyper service of one connection.
fn service<H: Handler + ?Sized>(
    server: Server<H>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send + 'static,
> {
    service_fn(move |request| {
        let server = server.clone();
        async move {
            // Only fails if the semaphore is closed, which never happens.
            let _slot = server.slots.acquire().await;
            let response = respond(server.handler.clone(), request, server.limits).await;
            Ok::<_, Infallible>(into_hyper(response))
        }
    })
}

async fn respond<H: Handler + ?Sized>(
    handler: Arc<H>,
    request: Request<Incoming>,
    limits: HttpLimits,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.body_bytes);
        handler.error_response(StatusCode::PAYLOAD_TOO_LARGE, &message)
    };
    let declared = head.headers.get(CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limits.body_bytes) {
        return too_large();
    }
    let body = Limited::new(body, limits.body_bytes).collect();
    let body = match tokio::time::timeout(limits.request_timeout, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
        Ok(Err(_)) => {
            return handler.error_response(StatusCode::BAD_REQUEST, "the body is incomplete");
        }
        Err(_) => {
            let message = "the body did not arrive in time";
            return handler.error_response(StatusCode::REQUEST_TIMEOUT, message);
        }
    };
    let request = HttpRequest {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body,
    };
    let after_panic = handler.clone();
    let handled = tokio::task::spawn_blocking(move || handler.handle(&request)).await;
    handled.unwrap_or_else(|_| {
        after_panic.error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })
}

fn into_hyper(response: HttpResponse) -> Response<Full<Bytes>> {
    let mut converted = Response::new(Full::new(Bytes::from(response.body)));
    *converted.status_mut() = response.status;
    let content_type = HeaderValue::from_static(response.content_type);
    converted.headers_mut().insert(CONTENT_TYPE, content_type);
    converted
}
