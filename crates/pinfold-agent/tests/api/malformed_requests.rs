//! Malformed and oversized requests: the server responds or closes the connection, and keeps serving others.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::server::{TestServer, serve, split};

fn check_still_serving(server: &TestServer) {
    assert_eq!(server.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn a_body_that_is_too_large_is_rejected_before_it_is_read() {
    let server = serve();
    let (status, answer) = server.ask("POST", "/v1/pods", &"x".repeat((1 << 20) + 1));
    assert_eq!(status, 413, "{answer}");
    check_still_serving(&server);
}

#[test]
fn a_body_without_a_length_is_limited_too() {
    let server = serve();
    let mut request = b"POST /v1/pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        request.extend(b"8000\r\n");
        request.extend(vec![b'x'; 0x8000]);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    assert_eq!(split(&server.send(&request)).0, 413);
    check_still_serving(&server);
}

#[test]
fn a_head_that_is_too_large_is_rejected() {
    let server = serve();
    let head = format!(
        "GET /v1/status HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(64 << 10)
    );
    let status = split(&server.send(head.as_bytes())).0;
    assert_eq!(status, 431);
    check_still_serving(&server);
}

#[test]
fn the_server_keeps_running_after_random_bytes() {
    let server = serve();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..60 {
        let length = round * 7;
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[3]
            })
            .chain(*b"\r\n\r\n")
            .collect();
        let _ = server.send(&bytes);
    }
    check_still_serving(&server);
}

#[test]
fn silent_clients_do_not_block_others_for_longer_than_the_timeout() {
    let server = serve();
    // As many connections as the limit allows, each silent or with an incomplete request.
    let mut silent: Vec<UnixStream> = Vec::new();
    for i in 0..8 {
        let mut stream = UnixStream::connect(&server.socket).expect("a listener");
        if i % 2 == 0 {
            let _ = stream
                .write_all(b"POST /v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx");
        }
        silent.push(stream);
    }
    // Further connections are closed at once until the silent ones time out.
    let answered = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answer =
            server.send(b"GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        !answer.is_empty()
    });
    assert!(answered);
}
