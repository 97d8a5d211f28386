//! HTTP through hyper: sizes, times and the number of connections are limited ([`Limits`]).

mod probes;
mod server;

pub use hyper::{Method, StatusCode};
pub use probes::{Health, Probed, Probes};
pub use server::{Answer, Answers, Asked, Limits, Listener, Spoken, serve};
