//! The server from outside: who is let in, what every response says, and how clients are bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pinfold_page::{ApiRequest, ApiResponse, PageApi, PageServer, ServeLimits};
use serde_json::json;

/// Answers with the request, and panics, waits or sends very much when asked to.
#[derive(Default)]
struct Echo {
    /// Counts the questions that were computed.
    generation: AtomicU64,
    /// Whether the question `held` is being computed, and whether it may end.
    is_held: AtomicBool,
    is_released: AtomicBool,
}

/// The size of a large answer: more than the kernel buffers.
const LARGE: usize = 64 << 20;

impl PageApi for Echo {
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        assert!(request.path != "panic", "asked to");
        if request.path == "large" {
            let body = vec![b' '; LARGE];
            return ApiResponse { status: 200, body };
        }
        while request.path == "held" && !self.is_released.load(Ordering::Relaxed) {
            self.is_held.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(5));
        }
        self.generation.fetch_add(1, Ordering::Relaxed);
        ApiResponse::json(&json!({"path": request.path, "bytes": request.body.len()}))
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation.load(Ordering::Relaxed))
    }
}

struct Site {
    echo: Arc<Echo>,
    address: SocketAddr,
    token: String,
}

impl Site {
    fn start(limits: ServeLimits) -> Self {
        let address = "127.0.0.1:0".parse().expect("an address");
        let server = PageServer::bind(address).expect("a free port");
        let server = server.with_limits(limits);
        let (address, url) = (server.address(), server.url());
        let echo = Arc::new(Echo::default());
        let api = echo.clone();
        thread::spawn(move || server.run(api));
        let (_, token) = url.split_once("token=").expect("a token");
        Self {
            echo,
            address,
            token: token.to_owned(),
        }
    }

    fn cookie(&self) -> String {
        format!("pinfold-{}={}", self.address.port(), self.token)
    }

    /// The response to a request with these headers beside Host.
    fn ask(&self, line: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        read_all(&mut stream)
    }
}

fn read_all(stream: &mut TcpStream) -> String {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("closed")
}

#[test]
fn the_token_becomes_a_cookie_without_which_nothing_is_answered() {
    let site = Site::start(ServeLimits::default());
    assert_eq!(status(&site.ask("GET /api/x", "", "")), "401");
    let opened = site.ask(&format!("GET /?token={}", site.token), "", "");
    assert_eq!(status(&opened), "303");
    let cookie = format!(
        "Set-Cookie: {}; Path=/; HttpOnly; SameSite=Strict",
        site.cookie()
    );
    assert!(opened.contains(&cookie), "{opened}");
    let wrong = site.ask("GET /?token=0", "", "");
    assert!(!wrong.contains("Set-Cookie"), "{wrong}");
    let cookie = format!("Cookie: {}\r\n", site.cookie());
    let answer = site.ask("POST /api/simulate?x=1", &cookie, "abc");
    assert!(
        answer.ends_with(r#"{"bytes":3,"path":"simulate"}"#),
        "{answer}"
    );
}

#[test]
fn other_hosts_and_origins_are_denied_even_with_the_cookie() {
    let site = Site::start(ServeLimits::default());
    let cookie = format!("Cookie: {}\r\n", site.cookie());
    let evil = format!("{cookie}Origin: http://pinfold.example\r\n");
    assert_eq!(status(&site.ask("POST /api/simulate", &evil, "")), "403");
    let embedded = format!("{cookie}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(status(&site.ask("GET /api/x", &embedded, "")), "403");
    let mut stream = TcpStream::connect(site.address).expect("a connection");
    let request =
        format!("GET / HTTP/1.1\r\nHost: pinfold.example\r\nConnection: close\r\n{cookie}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    assert_eq!(status(&read_all(&mut stream)), "421");
}

#[test]
fn every_response_has_the_policy_and_every_file_of_the_page_is_there() {
    let site = Site::start(ServeLimits::default());
    let page = site.ask("GET /", "", "");
    for wanted in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "nosniff",
        "require-trusted-types-for",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains("unsafe-"), "{page}");
    let imported = |text: &str| -> Vec<String> {
        let quoted = text
            .split(['"', '\''])
            .filter(|word| word.ends_with(".js") || word.ends_with(".css"));
        quoted
            .map(|word| word.trim_start_matches("./").to_owned())
            .collect()
    };
    let mut files = imported(&page);
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        let found = site.ask(&format!("GET /{file}"), "", "");
        assert_eq!(status(&found), "200", "{file}");
        for more in imported(&found) {
            if !files.contains(&more) {
                files.push(more);
            }
        }
        next += 1;
    }
    assert!(files.len() > 8, "{files:?}");
    assert_eq!(status(&site.ask("GET /../Cargo.toml", "", "")), "404");
    assert_eq!(status(&site.ask("DELETE /", "", "")), "405");
}

#[test]
fn all_files_together_are_small() {
    assert!(pinfold_page::embedded_bytes() < 600 << 10);
}

#[test]
fn large_and_malformed_requests_are_rejected() {
    let site = Site::start(ServeLimits {
        body_bytes: 1000,
        head_bytes: 2000,
        ..ServeLimits::default()
    });
    let cookie = format!("Cookie: {}\r\n", site.cookie());
    assert_eq!(
        status(&site.ask("POST /api/x", &cookie, &"a".repeat(1001))),
        "413"
    );
    let large = format!("X: {}\r\n", "a".repeat(3000));
    assert_eq!(status(&site.ask("GET /", &large, "")), "431");
    let chunked = format!("{cookie}Transfer-Encoding: chunked\r\n");
    assert_eq!(status(&site.ask("POST /api/x", &chunked, "")), "411");
}

#[test]
fn a_panic_ends_one_question_and_not_the_server() {
    let site = Site::start(ServeLimits::default());
    let cookie = format!("Cookie: {}\r\n", site.cookie());
    assert_eq!(status(&site.ask("GET /api/panic", &cookie, "")), "500");
    assert_eq!(status(&site.ask("GET /api/x", &cookie, "")), "200");
}

#[test]
fn idle_and_slow_connections_make_room_for_new_ones() {
    let site = Site::start(ServeLimits {
        connections: 4,
        ..ServeLimits::default()
    });
    let mut idle: Vec<TcpStream> = (0..20)
        .map(|number| {
            let mut stream = TcpStream::connect(site.address).expect("a connection");
            if number % 2 == 0 {
                stream
                    .write_all(b"GET / HTTP/1.1\r\nHost: 127")
                    .expect("sent");
            }
            stream
        })
        .collect();
    assert_eq!(status(&site.ask("GET /", "", "")), "200");
    assert_eq!(read_all(&mut idle[0]), "");
}

#[test]
fn a_slow_request_ends_at_its_deadline() {
    let site = Site::start(ServeLimits {
        request_time: Duration::from_millis(200),
        ..ServeLimits::default()
    });
    let mut stream = TcpStream::connect(site.address).expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
    assert_eq!(read_all(&mut stream), "");
}

#[test]
fn a_client_that_takes_its_answer_drop_by_drop_is_cut_off() {
    let site = Site::start(ServeLimits {
        request_time: Duration::from_millis(200),
        ..ServeLimits::default()
    });
    let mut stream = TcpStream::connect(site.address).expect("a connection");
    let request = format!(
        "GET /api/large HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
        site.address,
        site.cookie()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    // Each read makes room for more, long before a single write would time out.
    let mut taken = 0;
    let mut chunk = vec![0; 256 << 10];
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        taken += read;
        thread::sleep(Duration::from_millis(20));
    }
    assert!(taken > 0 && taken < LARGE, "{taken}");
}

#[test]
fn a_question_whose_page_was_closed_while_it_waited_is_not_computed() {
    let site = Site::start(ServeLimits {
        questions: 1,
        ..ServeLimits::default()
    });
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(site.address).expect("a connection");
        let request = format!(
            "GET /api/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: {}\r\n\r\n",
            site.address,
            site.cookie()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    let mut held = ask("held");
    while !site.echo.is_held.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    drop([ask("x"), ask("x"), ask("x")]);
    let mut patient = ask("x");
    site.echo.is_released.store(true, Ordering::Relaxed);
    assert_eq!(status(&read_all(&mut held)), "200");
    assert_eq!(status(&read_all(&mut patient)), "200");
    // Time for the three to be computed, if they were.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(site.echo.generation.load(Ordering::Relaxed), 2);
}

#[test]
fn events_name_the_generation_when_it_changes() {
    let site = Site::start(ServeLimits::default());
    let cookie = format!("Cookie: {}\r\n", site.cookie());
    let mut stream = TcpStream::connect(site.address).expect("a connection");
    let request = format!(
        "GET /api/events HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n",
        site.address
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let mut seen = String::new();
    let mut wait_for = |wanted: &str| {
        while !seen.contains(wanted) {
            let mut chunk = [0; 512];
            let read = stream.read(&mut chunk).expect("more");
            assert!(read > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&chunk[..read]));
        }
    };
    wait_for("text/event-stream");
    wait_for("data: 0\n\n");
    site.ask("GET /api/x", &cookie, "");
    wait_for("data: 1\n\n");
}
