//! A server that receives requests as clients on unix sockets send them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use kubelet_api::device_plugin::{Empty, RegisterRequest, Registration, RegistrationServer};
use kubelet_api::unix::{self, PeerLimits};
use tonic::{Request, Response, Status};

struct Welcoming;

impl Registration for Welcoming {
    async fn register(&self, _: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        Ok(Response::new(Empty {}))
    }
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// A request in the form that does not use the table, with an empty message.
fn request(authority: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v1beta1.Registration/Register"),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("short"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 0x4, 1, &block),
        frame(0, 0x1, 1, &[0; 5]),
    ]
    .concat()
}

/// The type of the first frame of the response: 1 is HEADERS, 3 is RST_STREAM.
fn answer(stream: &mut UnixStream) -> u8 {
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).expect("a frame");
        let [a, b, c, kind, _, .., id] = header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).expect("its content");
        if id == 1 && kind != 8 {
            return kind;
        }
    }
}

#[test]
fn a_request_with_any_authority_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubelet.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = {
        let _inside = runtime.enter();
        tokio::net::UnixListener::bind(&path).expect("a socket")
    };
    let peers = PeerLimits {
        user: rustix::process::geteuid().as_raw(),
        connections: 8,
        calls: 8,
    };
    runtime.spawn(unix::serve(
        listener,
        RegistrationServer::new(Welcoming),
        peers,
    ));
    for authority in [
        "%2Fvar%2Flib%2Fkubelet%2Fdevice-plugins%2Fkubelet.sock",
        "/var/lib/kubelet/device-plugins/kubelet.sock",
        "unix:///kubelet.sock",
        "",
        "localhost",
    ] {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).expect("a limit");
        stream.write_all(&request(authority)).expect("it is sent");
        assert_eq!(answer(&mut stream), 1, "{authority:?}");
    }
}
