//! The protocol from end to end, against a runtime made for tests.

mod codec;
mod failures;
mod fake;
mod session;
mod wire;
