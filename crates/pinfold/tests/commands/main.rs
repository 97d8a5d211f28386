//! The program as people run it: every command's text, its exit codes, and what its outputs promise.

mod agent;
mod examples;
#[path = "../../../pinfold-agent/tests/api/fake_agent.rs"]
mod fake_agent;
mod golden;
mod handbook;
mod live;
mod plugin;
mod program;
mod promises;
#[path = "../../../pinfold-agent/tests/api/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the API")]
mod server;
mod terminal;
mod texts;
