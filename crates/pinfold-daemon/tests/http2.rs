//! HTTP/2 with one client that asks for too much: within limits everything is answered, beyond them nothing is read.

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
use pinfold_daemon::http::{Answer, Answers, Asked, Limits, Listener, Spoken, StatusCode, serve};
use tokio::net::{TcpListener, TcpStream};

type Body = BoxBody<Bytes, Infallible>;

const LIMITS: Limits = Limits {
    connections: 3,
    head: 1000,
    body: 100_000,
    arrival: Duration::from_secs(60),
    life: Duration::from_secs(60),
};

/// Everybody who comes speaks HTTP/2, as if they had agreed on it.
struct Plain(TcpListener);

impl Listener for Plain {
    type Raw = TcpStream;
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        Ok(self.0.accept().await?.0)
    }

    async fn open(&self, raw: TcpStream) -> io::Result<TcpStream> {
        Ok(raw)
    }

    fn spoken(_: &TcpStream) -> Spoken {
        Spoken::Http2
    }
}

/// Says how long the body was. The first who ask for `/together` wait until as many do as may at a time.
#[derive(Default)]
struct Lengths {
    crowd: Mutex<Crowd>,
    came: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Crowd {
    here: usize,
    most: usize,
}

impl Answers for Lengths {
    fn answer(&self, asked: &Asked) -> Answer {
        if asked.path == "/together" {
            let mut crowd = self.crowd.lock().expect("nobody panics");
            crowd.here += 1;
            crowd.most = crowd.most.max(crowd.here);
            self.came.notify_all();
            let is_small = |crowd: &mut Crowd| crowd.most < LIMITS.connections;
            let long = Duration::from_secs(20);
            let waited = self.came.wait_timeout_while(crowd, long, is_small);
            waited.expect("nobody panics").0.here -= 1;
        }
        said(StatusCode::OK, &asked.body.len().to_string())
    }

    fn reject(&self, status: StatusCode, error: &str) -> Answer {
        said(status, error)
    }
}

fn said(status: StatusCode, text: &str) -> Answer {
    Answer {
        status,
        content: "text/plain",
        body: text.as_bytes().to_vec(),
    }
}

/// Plays with one connection.
fn play(story: impl AsyncFnOnce(SendRequest<Body>)) -> Arc<Lengths> {
    play_within(LIMITS, story)
}

fn play_within(limits: Limits, story: impl AsyncFnOnce(SendRequest<Body>)) -> Arc<Lengths> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let answers = Arc::new(Lengths::default());
    runtime.block_on(async {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(any).await.expect("a port");
        let port = listener.local_addr().expect("an address");
        let serving = tokio::spawn(serve(Plain(listener), answers.clone(), limits));
        let stream = TcpStream::connect(port).await.expect("a connection");
        let opened = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (client, connection) = opened.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        story(client).await;
        connection.abort();
        serving.abort();
    });
    answers
}

async fn ask(
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
    let answer = client.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn whole(length: usize) -> Body {
    Full::new(Bytes::from(vec![b'x'; length])).boxed()
}

/// A body that does not say how long it is.
struct Pieces {
    left: usize,
    piece: usize,
    /// Whether it comes to an end, or says nothing more for ever.
    ends: bool,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (self.left.checked_sub(1), self.ends) {
            (Some(left), _) => {
                self.left = left;
                let piece = Bytes::from(vec![b'x'; self.piece]);
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            (None, true) => Poll::Ready(None),
            (None, false) => Poll::Pending,
        }
    }
}

#[test]
fn a_body_up_to_the_limit_is_read_whether_its_length_is_said_or_not() {
    play(async |mut client| {
        let all = LIMITS.body.to_string();
        let said = ask(&mut client, "/", 0, whole(LIMITS.body)).await;
        assert_eq!(said.expect("an answer"), (StatusCode::OK, all.clone()));
        let pieces = Pieces {
            left: 10,
            piece: LIMITS.body / 10,
            ends: true,
        };
        let said = ask(&mut client, "/", 0, pieces.boxed()).await;
        assert_eq!(said.expect("an answer"), (StatusCode::OK, all));
    });
}

#[test]
fn a_larger_body_is_rejected_and_the_connection_goes_on() {
    play(async |mut client| {
        let pieces = Pieces {
            left: 1_000_000,
            piece: 10_000,
            ends: true,
        };
        for body in [whole(LIMITS.body + 1), pieces.boxed()] {
            let (status, told) = ask(&mut client, "/", 0, body).await.expect("an answer");
            assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
            assert!(told.contains("larger than 100000 bytes"), "{told}");
        }
        let said = ask(&mut client, "/", 0, whole(1)).await;
        assert_eq!(said.expect("an answer").0, StatusCode::OK);
    });
}

#[test]
fn a_body_that_does_not_come_to_its_end_is_given_up() {
    let soon = Limits {
        arrival: Duration::from_millis(200),
        ..LIMITS
    };
    play_within(soon, async |mut client| {
        let silent = Pieces {
            left: 1,
            piece: 10,
            ends: false,
        };
        let said = ask(&mut client, "/", 0, silent.boxed()).await;
        let (status, told) = said.expect("an answer");
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{told}");
    });
}

#[test]
fn a_large_head_is_rejected() {
    play(async |mut client| {
        let said = ask(&mut client, "/", 2 * LIMITS.head, whole(0)).await;
        let (status, _) = said.expect("an answer");
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    });
}

#[test]
fn no_more_are_answered_at_a_time_than_may_be_and_all_are_in_the_end() {
    let answers = play(async |mut client| {
        // A client that has not heard of the limit yet is told to ask again.
        let first = ask(&mut client, "/", 0, whole(0)).await;
        assert_eq!(first.expect("an answer").0, StatusCode::OK);
        let many = (0..4 * LIMITS.connections).map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { ask(&mut client, "/together", 0, whole(7)).await })
        });
        for asked in many.collect::<Vec<_>>() {
            let said = asked.await.expect("nobody panics").expect("an answer");
            assert_eq!(said, (StatusCode::OK, "7".to_owned()));
        }
    });
    // Several at a time, which is what HTTP/2 is for, and never more than may.
    let crowd = *answers.crowd.lock().expect("nobody panics");
    assert_eq!((crowd.here, crowd.most), (0, LIMITS.connections));
}
