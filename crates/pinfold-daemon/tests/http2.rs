//! The limits of the HTTP server over HTTP/2: requests within the limits are answered, larger ones are rejected.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pinfold_daemon::http::{
    Handler, HttpLimits, HttpRequest, HttpResponse, HttpVersion, Listener, StatusCode, serve,
};
use tokio::net::{TcpListener, TcpStream};

type Body = BoxBody<Bytes, Infallible>;

const LIMITS: HttpLimits = HttpLimits {
    connections: 3,
    header_bytes: 1000,
    body_bytes: 100_000,
    request_timeout: Duration::from_secs(60),
    connection_lifetime: Duration::from_secs(60),
};

/// A listener whose connections are all HTTP/2, without a TLS handshake that negotiates it.
struct PlainHttp2(TcpListener);

impl Listener for PlainHttp2 {
    type Raw = TcpStream;
    type Stream = TcpStream;

    async fn accept_raw(&self) -> io::Result<TcpStream> {
        Ok(self.0.accept().await?.0)
    }

    async fn handshake(&self, raw: TcpStream) -> io::Result<TcpStream> {
        Ok(raw)
    }

    fn http_version(_: &TcpStream) -> HttpVersion {
        HttpVersion::Http2
    }
}

/// Responds with the length of the body. Requests for `/together` wait until as many are handled at a time as the limits
/// allow.
#[derive(Default)]
struct LengthHandler {
    concurrency: Mutex<Concurrency>,
    started: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Concurrency {
    current: usize,
    max: usize,
}

impl Handler for LengthHandler {
    fn handle(&self, request: &HttpRequest) -> HttpResponse {
        if request.path == "/together" {
            let mut concurrency = self.concurrency.lock().expect("unpoisoned");
            concurrency.current += 1;
            concurrency.max = concurrency.max.max(concurrency.current);
            self.started.notify_all();
            let is_below = |now: &mut Concurrency| now.max < LIMITS.connections;
            let timeout = Duration::from_secs(20);
            let waited = self
                .started
                .wait_timeout_while(concurrency, timeout, is_below);
            waited.expect("unpoisoned").0.current -= 1;
        }
        text(StatusCode::OK, &request.body.len().to_string())
    }

    fn error_response(&self, status: StatusCode, message: &str) -> HttpResponse {
        text(status, message)
    }
}

fn text(status: StatusCode, text: &str) -> HttpResponse {
    HttpResponse {
        status,
        content_type: "text/plain",
        body: text.as_bytes().to_vec(),
    }
}

/// Runs `test` with one connection to a server.
fn with_client(test: impl AsyncFnOnce(SendRequest<Body>)) -> Arc<LengthHandler> {
    with_limits(LIMITS, test)
}

fn with_limits(
    limits: HttpLimits,
    test: impl AsyncFnOnce(SendRequest<Body>),
) -> Arc<LengthHandler> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let handler = Arc::new(LengthHandler::default());
    runtime.block_on(async {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(any).await.expect("a port");
        let port = listener.local_addr().expect("an address");
        let serving = tokio::spawn(serve(PlainHttp2(listener), handler.clone(), limits));
        let stream = TcpStream::connect(port).await.expect("a connection");
        let opened = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (client, connection) = opened.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        test(client).await;
        connection.abort();
        serving.abort();
    });
    handler
}

async fn post(
    client: &mut SendRequest<Body>,
    path: &str,
    header: usize,
    body: Body,
) -> Result<(StatusCode, String), hyper::Error> {
    let request = hyper::Request::post(format!("http://node{path}"))
        .header("x-more", "x".repeat(header))
        .body(body)
        .expect("a request");
    client.ready().await?;
    let response = client.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn sized(length: usize) -> Body {
    Full::new(Bytes::from(vec![b'x'; length])).boxed()
}

/// A body without a declared length.
struct Chunks {
    left: usize,
    size: usize,
    /// Whether the body ends after the last chunk, or stays open.
    ends: bool,
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (self.left.checked_sub(1), self.ends) {
            (Some(left), _) => {
                self.left = left;
                let chunk = Bytes::from(vec![b'x'; self.size]);
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            (None, true) => Poll::Ready(None),
            (None, false) => Poll::Pending,
        }
    }
}

#[test]
fn a_body_up_to_the_limit_is_read_with_and_without_a_declared_length() {
    with_client(async |mut client| {
        let all = LIMITS.body_bytes.to_string();
        let response = post(&mut client, "/", 0, sized(LIMITS.body_bytes)).await;
        assert_eq!(response.expect("a response"), (StatusCode::OK, all.clone()));
        let chunks = Chunks {
            left: 10,
            size: LIMITS.body_bytes / 10,
            ends: true,
        };
        let response = post(&mut client, "/", 0, chunks.boxed()).await;
        assert_eq!(response.expect("a response"), (StatusCode::OK, all));
    });
}

#[test]
fn a_larger_body_is_rejected_and_the_connection_stays_open() {
    with_client(async |mut client| {
        let chunks = Chunks {
            left: 1_000_000,
            size: 10_000,
            ends: true,
        };
        for body in [sized(LIMITS.body_bytes + 1), chunks.boxed()] {
            let (status, message) = post(&mut client, "/", 0, body).await.expect("a response");
            assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
            assert!(message.contains("larger than 100000 bytes"), "{message}");
        }
        let response = post(&mut client, "/", 0, sized(1)).await;
        assert_eq!(response.expect("a response").0, StatusCode::OK);
    });
}

#[test]
fn a_body_that_stalls_times_out() {
    let soon = HttpLimits {
        request_timeout: Duration::from_millis(200),
        ..LIMITS
    };
    with_limits(soon, async |mut client| {
        let stalled = Chunks {
            left: 1,
            size: 10,
            ends: false,
        };
        let response = post(&mut client, "/", 0, stalled.boxed()).await;
        let (status, message) = response.expect("a response");
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{message}");
    });
}

#[test]
fn headers_above_the_limit_are_rejected() {
    with_client(async |mut client| {
        let response = post(&mut client, "/", 2 * LIMITS.header_bytes, sized(0)).await;
        let (status, _) = response.expect("a response");
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    });
}

#[test]
fn concurrent_requests_are_limited_and_all_are_answered() {
    let handler = with_client(async |mut client| {
        // Only a client that has received the server's settings keeps to the limit of concurrent streams.
        let first = post(&mut client, "/", 0, sized(0)).await;
        assert_eq!(first.expect("a response").0, StatusCode::OK);
        let many = (0..4 * LIMITS.connections).map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { post(&mut client, "/together", 0, sized(7)).await })
        });
        for task in many.collect::<Vec<_>>() {
            let response = task.await.expect("no panic").expect("a response");
            assert_eq!(response, (StatusCode::OK, "7".to_owned()));
        }
    });
    // The limit was reached and not exceeded.
    let concurrency = *handler.concurrency.lock().expect("unpoisoned");
    assert_eq!(
        (concurrency.current, concurrency.max),
        (0, LIMITS.connections)
    );
}
