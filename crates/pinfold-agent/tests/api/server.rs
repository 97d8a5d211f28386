//! [`TestServer`]: serves a fake agent, and sends requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pinfold_agent::http::{self, ApiRoutes, HttpLimits, ProbeHandler};
use pinfold_daemon::socket;
use serde_json::Value;

use super::fake_agent::FakeAgent;

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    pub(crate) agent: Arc<FakeAgent>,
    pub(crate) socket: PathBuf,
    pub(crate) address: std::net::SocketAddr,
    _file: socket::SocketFile,
    _runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

/// Most connections of each listener.
pub(crate) const CONNECTIONS: usize = 8;

/// Starts a server with low limits, so that tests can exceed them.
pub(crate) fn serve() -> TestServer {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = FakeAgent::new(folder.path());
    let socket = folder.path().join("run/agent.sock");
    let limits = HttpLimits {
        connections: CONNECTIONS,
        request_timeout: Duration::from_secs(1),
        ..HttpLimits::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (listener, file) = socket::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("a socket of ours");
    let metrics = Arc::new(pinfold_agent::metrics::registry());
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    tcp.set_nonblocking(true).expect("a port of ours");
    let address = tcp.local_addr().expect("an address");
    let api = Arc::new(ApiRoutes::new(agent.clone(), metrics.clone()));
    let probes = Arc::new(ProbeHandler::new(agent.clone(), metrics));
    runtime.spawn(async move {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        http::serve(listener, api, limits).await
    });
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(tcp)?;
        http::serve_probes(listener, probes, limits).await
    });
    TestServer {
        agent,
        socket,
        address,
        _file: file,
        _runtime: runtime,
        _folder: folder,
    }
}

impl TestServer {
    /// Sends bytes to the API's socket and returns the whole response.
    pub(crate) fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let stream = UnixStream::connect(&self.socket).expect("a listener");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a socket");
        exchange(stream, bytes)
    }

    /// Sends a request to the API and returns the status and the JSON body of the response.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let (status, body) = split(&self.send(request.as_bytes()));
        (status, serde_json::from_str(&body).expect("JSON"))
    }

    /// Sends a request to the TCP port of metrics and probes.
    pub(crate) fn probe(&self, method: &str, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.address).expect("a listener");
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        split(&exchange(stream, request.as_bytes()))
    }
}

fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Vec<u8> {
    // The server may reject the request and close the connection before everything is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The status and the body of a response.
pub(crate) fn split(answer: &[u8]) -> (u16, String) {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}
