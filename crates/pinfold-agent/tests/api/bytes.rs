//! Whatever bytes come, the server answers or closes, and goes on.

use std::io::Write;
use std::os::unix::net::UnixStream;

use crate::wire::{Served, serve, split};

fn lives(served: &Served) {
    assert_eq!(served.ask("GET", "/v1/status", "").0, 200);
}

#[test]
fn a_body_that_is_too_large_is_rejected_before_it_is_read() {
    let served = serve();
    let (status, told) = served.ask("POST", "/v1/pods", &"x".repeat((1 << 20) + 1));
    assert_eq!(status, 413, "{told}");
    lives(&served);
}

#[test]
fn a_body_without_a_length_is_limited_too() {
    let served = serve();
    let mut request = b"POST /v1/pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        request.extend(b"8000\r\n");
        request.extend(vec![b'x'; 0x8000]);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    assert_eq!(split(&served.send(&request)).0, 413);
    lives(&served);
}

#[test]
fn a_head_that_is_too_large_is_rejected() {
    let served = serve();
    let head = format!(
        "GET /v1/status HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(64 << 10)
    );
    let status = split(&served.send(head.as_bytes())).0;
    assert_eq!(status, 431);
    lives(&served);
}

#[test]
fn nonsense_is_no_reason_to_stop() {
    let served = serve();
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
        let _ = served.send(&bytes);
    }
    lives(&served);
}

#[test]
fn a_client_that_says_nothing_does_not_keep_others_out() {
    let served = serve();
    // As many as may be connected, all silent or stuck in the middle.
    let mut silent: Vec<UnixStream> = Vec::new();
    for i in 0..8 {
        let mut stream = UnixStream::connect(&served.socket).expect("somebody listens");
        if i % 2 == 0 {
            let _ = stream
                .write_all(b"POST /v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx");
        }
        silent.push(stream);
    }
    // Further ones are closed at once; when the silent ones' time is up there is room again.
    let answered = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answer =
            served.send(b"GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        !answer.is_empty()
    });
    assert!(answered);
}
