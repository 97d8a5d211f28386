//! The link to the API server, with servers that forget, reject, fall silent and talk nonsense.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod connection;
mod events;
mod pods;
mod publisher;
mod server;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_agent::kubernetes::{Kubernetes, Remark, Timing};
use server::Server;

/// Everything at once, and looking again only when told to.
fn quick() -> Timing {
    Timing {
        request: Duration::from_secs(5),
        interval: Duration::from_millis(1),
        check: Duration::from_secs(3600),
        first_retry: Duration::from_millis(5),
        longest_retry: Duration::from_millis(50),
        event_interval: Duration::from_millis(1),
        event_repeat: Duration::from_millis(1),
    }
}

type Said = Arc<Mutex<Vec<Remark>>>;

/// A link to the server, and what it remarks.
fn link(server: &Server, timing: Timing) -> (Kubernetes, Said) {
    let said = Said::default();
    let sink = Arc::clone(&said);
    let remarks = move |remark| sink.lock().unwrap().push(remark);
    let link = Kubernetes::start(&server.connection(), "worker-1", timing, remarks).unwrap();
    (link, said)
}

/// Waits until it is so; fails with what should have been.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until such a remark was made.
fn remarked(said: &Said, what: &str, is_it: impl Fn(&Remark) -> bool) {
    eventually(what, || said.lock().unwrap().iter().any(&is_it));
}
