//! The engine over a real socket, with calls as the plugin sends them and a fake API server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod cluster;
mod reports;
#[path = "../../../pinfold-agent/tests/kubernetes/server.rs"]
#[expect(
    dead_code,
    reason = "shared with the agent's tests, which use all of it"
)]
mod server;
mod sessions;
