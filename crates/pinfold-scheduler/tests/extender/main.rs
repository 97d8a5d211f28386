//! The extender over real sockets: requests as kube-scheduler sends them, an API server that answers as it is told to.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod binding;
mod cluster;
mod leading;
mod reports;
mod requests;
#[path = "../../../pinfold-agent/tests/kubernetes/server.rs"]
#[expect(
    dead_code,
    reason = "shared with the agent's tests, which use all of it"
)]
mod server;
mod tls;
