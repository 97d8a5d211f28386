//! The program as people run it: every command's text, its exit codes, and what its outputs promise.

mod agent;
#[path = "../../../pinfold-agent/tests/api/desk.rs"]
mod desk;
mod examples;
mod golden;
mod handbook;
mod live;
mod plugin;
mod program;
mod promises;
mod terminal;
mod texts;
#[path = "../../../pinfold-agent/tests/api/wire.rs"]
#[allow(dead_code, reason = "shared with the tests of the API")]
mod wire;
