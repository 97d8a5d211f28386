//! The API server client, with servers that lose their watch history, reject requests, hang, or send invalid responses.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod connection;
mod events;
mod node_status;
mod pods;
mod publisher;
mod server;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_agent::kubernetes::{
    ApiServerClient, ClientOptions, OtherWriterPolicy, SyncEvent, Timing,
};
use server::Server;

/// Short intervals, so that tests are fast, and no periodic checks.
fn quick() -> Timing {
    Timing {
        request: Duration::from_secs(5),
        interval: Duration::from_millis(1),
        check: Duration::from_secs(3600),
        first_retry: Duration::from_millis(5),
        longest_retry: Duration::from_millis(50),
        event_interval: Duration::from_millis(1),
        event_repeat: Duration::from_millis(1),
        heartbeat: Duration::from_secs(3600),
    }
}

type Log = Arc<Mutex<Vec<SyncEvent>>>;

/// Starts a client of the server, with a log of its events.
fn connect(server: &Server, timing: Timing) -> (ApiServerClient, Log) {
    connect_with(server, timing, OtherWriterPolicy::default())
}

/// The same, with this policy about other writers.
fn connect_with(
    server: &Server,
    timing: Timing,
    policy: OtherWriterPolicy,
) -> (ApiServerClient, Log) {
    let log = Log::default();
    let sink = Arc::clone(&log);
    let on_event = move |event| sink.lock().unwrap().push(event);
    let options = ClientOptions {
        timing,
        other_writers: policy,
        ..ClientOptions::default()
    };
    let connection = server.connection();
    let client = ApiServerClient::start_with(&connection, "worker-1", options, on_event).unwrap();
    (client, log)
}

/// Waits until the condition is true, or fails with its description.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a matching event was logged.
fn logged(log: &Log, what: &str, matches: impl Fn(&SyncEvent) -> bool) {
    eventually(what, || log.lock().unwrap().iter().any(&matches));
}
