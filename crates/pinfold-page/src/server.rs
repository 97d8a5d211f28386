//! [`PageServer`]: accepts connections and answers their requests, one thread each.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::access::{Access, Denied, Token};
use crate::api::{ApiRequest, ApiResponse, PageApi};
use crate::assets;
use crate::connections::{Connections, OpenConnection};
use crate::request::{HttpRequest, RequestError, RequestLimits, RequestReader};
use crate::response::{self, HttpResponse, JSON, TEXT};

/// The time between two looks for a new generation.
const EVENT_INTERVAL: Duration = Duration::from_millis(250);
/// The time after which an open page is sent a line without content, which shows whether it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The age at which the stream of a page ends; the browser opens another one.
const EVENTS_LIFETIME: Duration = Duration::from_secs(600);
/// The stack of a connection's thread.
const STACK: usize = 4 << 20;

/// Limits on what clients can use.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// Connections at a time. A further one closes the one that has been idle for the longest time.
    pub connections: usize,
    /// Pages that are sent events at a time.
    pub event_streams: usize,
    /// Questions that are computed at a time; further ones wait.
    pub questions: usize,
    /// Bytes of a request's first line and headers.
    pub head_bytes: usize,
    /// Bytes of a question.
    pub body_bytes: usize,
    /// Time for a request to arrive, and for an answer to be taken.
    pub request_time: Duration,
    /// Time that a connection may be idle.
    pub idle_time: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            event_streams: 16,
            questions: 2,
            head_bytes: 16 << 10,
            body_bytes: 8 << 20,
            request_time: Duration::from_secs(15),
            idle_time: Duration::from_secs(60),
        }
    }
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or not one of this computer.
    #[error(
        "cannot listen on {address}: {error}\n  --listen ADDRESS:PORT takes another one; port 0 is any free one"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// There is no random token.
    #[error("cannot make a token: {0}")]
    Token(io::Error),
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct PageServer {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    limits: ServeLimits,
}

/// What all connections share.
struct Served {
    api: Arc<dyn PageApi>,
    access: Access,
    limits: ServeLimits,
    event_streams: AtomicUsize,
    questions: Slots,
}

/// A number of questions that are computed at a time; further ones wait.
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    /// Computes an answer when it is its turn.
    fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        let found = work();
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
        found
    }
}

impl PageServer {
    /// Listens on an address with a new token.
    ///
    /// # Errors
    /// If the address cannot be listened on, or there are no random numbers.
    pub fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let listener =
            TcpListener::bind(address).map_err(|error| ServeError::Listen { address, error })?;
        let bound = listener.local_addr();
        Ok(Self {
            address: bound.map_err(|error| ServeError::Listen { address, error })?,
            token: Token::random().map_err(ServeError::Token)?,
            listener,
            limits: ServeLimits::default(),
        })
    }

    /// The same server under other limits.
    #[must_use]
    pub fn with_limits(self, limits: ServeLimits) -> Self {
        Self { limits, ..self }
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to open in a browser, with the token. A server that listens on all addresses names loopback.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip([127, 0, 0, 1].into()),
            IpAddr::V6(ip) if ip.is_unspecified() => {
                address.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
            }
            _ => {}
        }
        format!("http://{address}/?token={}", self.token.as_str())
    }

    /// Answers requests until the process ends.
    pub fn run(self, api: Arc<dyn PageApi>) {
        let served = Arc::new(Served {
            api,
            access: Access::new(self.token, self.address.port()),
            limits: self.limits,
            event_streams: AtomicUsize::new(0),
            questions: Slots {
                free: Mutex::new(self.limits.questions.max(1)),
                freed: Condvar::new(),
            },
        });
        let connections = Connections::new(self.limits.connections);
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else {
                // Too many open files, or a connection that ended before it was accepted.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let _ = stream.set_nodelay(true);
            // A connection that is not added is dropped, and thereby closed.
            if let Some(connection) = connections.add(stream) {
                let served = served.clone();
                let thread = thread::Builder::new().stack_size(STACK);
                let _ = thread.spawn(move || served.connection(&connection));
            }
        }
    }
}

impl Served {
    /// Answers the requests of one connection.
    fn connection(&self, connection: &OpenConnection) {
        let limits = RequestLimits {
            head_bytes: self.limits.head_bytes,
            body_bytes: self.limits.body_bytes,
            time: self.limits.request_time,
        };
        let Ok(mut output) = connection.stream().try_clone() else {
            return;
        };
        let mut reader = RequestReader::new(connection.stream(), limits);
        loop {
            connection.set_idle();
            if reader.wait(self.limits.idle_time).is_err() {
                return;
            }
            // A request that is still arriving counts as idle: sending slowly must not keep others out.
            match reader.read() {
                Ok(request) => {
                    connection.set_busy();
                    let close = request.close;
                    match self.respond(&request, &mut output) {
                        Ok(()) if !close => {}
                        _ => return,
                    }
                }
                Err(RequestError::Bad(status, message)) => {
                    let body = ApiResponse::error(status, message).body;
                    let response = HttpResponse::new(status, JSON, &body);
                    let _ = response.write(&mut output, self.limits.request_time, false, true);
                    return;
                }
                Err(RequestError::TooSlow | RequestError::Closed) => return,
            }
        }
    }

    fn respond(&self, request: &HttpRequest, output: &mut TcpStream) -> io::Result<()> {
        let is_head = request.method == "HEAD";
        let send = |output: &mut TcpStream, response: &HttpResponse<'_>| {
            response.write(output, self.limits.request_time, is_head, request.close)
        };
        let deny = |output: &mut TcpStream, denied: Denied| {
            let status = match denied {
                Denied::Host => 421,
                Denied::CrossSite => 403,
                Denied::NoToken => 401,
            };
            let body = ApiResponse::error(status, denied.message()).body;
            send(output, &HttpResponse::new(status, JSON, &body))
        };
        if let Err(denied) = self.access.check_source(request) {
            return deny(output, denied);
        }
        let (path, query) = request.path_and_query();
        let is_get = matches!(request.method.as_str(), "GET" | "HEAD");
        let Some(api_path) = path.strip_prefix("/api/") else {
            if !is_get {
                let body = b"only GET is answered here\n";
                return send(output, &HttpResponse::new(405, TEXT, body));
            }
            return match assets::find(path) {
                Some(_) if path == "/" && query.contains("token=") => {
                    let mut response = HttpResponse::new(303, TEXT, b"");
                    response.headers.push(("Location", "/".to_owned()));
                    let cookie = self.access.cookie_for(query);
                    let cookie = cookie.map(|cookie| ("Set-Cookie", cookie));
                    response.headers.extend(cookie);
                    send(output, &response)
                }
                Some(asset) => {
                    let response = HttpResponse::new(200, asset.content_type, asset.content);
                    send(output, &response)
                }
                None => send(output, &HttpResponse::new(404, TEXT, b"no such page\n")),
            };
        };
        if let Err(denied) = self.access.check_question(request) {
            return deny(output, denied);
        }
        if api_path == "events" && request.method == "GET" {
            return self.events(output);
        }
        let answer = match request.method.as_str() {
            "GET" | "HEAD" | "POST" => {
                let answer = self.questions.with(|| {
                    // The page asks again at every change and closes the connection of the question before.
                    if has_left(output) {
                        return None;
                    }
                    Some(self.answer(&ApiRequest {
                        path: api_path,
                        query,
                        body: &request.body,
                    }))
                });
                answer.ok_or(io::ErrorKind::ConnectionAborted)?
            }
            _ => ApiResponse::error(405, "only GET and POST are answered"),
        };
        send(
            output,
            &HttpResponse::new(answer.status, JSON, &answer.body),
        )
    }

    /// The program's answer. A defect of one question must not end the server for all others.
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        let answer = catch_unwind(AssertUnwindSafe(|| self.api.answer(request)));
        answer.unwrap_or_else(|_| {
            ApiResponse::error(
                500,
                "this question hit a defect of Pinfold; the terminal shows where",
            )
        })
    }

    /// Sends a line whenever the generation changes, until the page is closed.
    fn events(&self, output: &mut TcpStream) -> io::Result<()> {
        let open = self.event_streams.fetch_add(1, Ordering::Relaxed);
        let ended = match open < self.limits.event_streams {
            true => self.send_events(output),
            false => {
                let body = ApiResponse::error(503, "too many pages are open").body;
                let response = HttpResponse::new(503, JSON, &body);
                response.write(output, self.limits.request_time, false, true)
            }
        };
        self.event_streams.fetch_sub(1, Ordering::Relaxed);
        ended.and(Err(io::ErrorKind::ConnectionAborted.into()))
    }

    fn send_events(&self, output: &mut TcpStream) -> io::Result<()> {
        let mut head = response::head(200, "text/event-stream", &[]);
        head.push_str("Connection: close\r\n\r\n");
        let time = self.limits.request_time;
        response::write_within(output, head.as_bytes(), time)?;
        let began = Instant::now();
        let (mut sent, mut sent_at) = (None, began);
        while began.elapsed() < EVENTS_LIFETIME {
            let generation = catch_unwind(AssertUnwindSafe(|| self.api.generation()));
            let generation = generation.unwrap_or_default();
            if generation.is_some() && generation != sent {
                let number = generation.unwrap_or_default();
                let line = format!("data: {number}\n\n");
                response::write_within(output, line.as_bytes(), time)?;
                (sent, sent_at) = (generation, Instant::now());
            } else if sent_at.elapsed() >= HEARTBEAT {
                response::write_within(output, b":\n\n", time)?;
                sent_at = Instant::now();
            }
            thread::sleep(EVENT_INTERVAL);
        }
        Ok(())
    }
}

/// Whether the client closed the connection.
fn has_left(stream: &TcpStream) -> bool {
    let is_set = stream.set_nonblocking(true).is_ok();
    let has_left = is_set && matches!(stream.peek(&mut [0]), Ok(0));
    stream.set_nonblocking(false).is_err() || has_left
}
