//! The extender over real sockets, with requests as kube-scheduler sends them and a fake API server.
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
