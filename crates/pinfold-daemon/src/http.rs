//! An HTTP server on hyper that limits sizes, times and the number of connections ([`HttpLimits`]).

mod probe_handler;
mod server;

pub use hyper::{Method, StatusCode};
pub use probe_handler::{DaemonStatus, Health, ProbeHandler};
pub use server::{
    Handler, HttpLimits, HttpRequest, HttpResponse, HttpVersion, Listener, serve, serve_probes,
};
