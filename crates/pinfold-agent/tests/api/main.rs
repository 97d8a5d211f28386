//! The agent's API as its clients see it, served by a fake agent with a real ledger and journal.

mod documentation;
mod fake_agent;
mod malformed_requests;
mod probes;
mod routes;
mod server;
