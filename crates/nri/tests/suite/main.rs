//! The protocol from end to end, against a runtime made for tests.

#![allow(clippy::unwrap_used, reason = "a failing test is the point of it")]

mod codec;
mod failures;
mod fake;
mod session;
mod wire;
