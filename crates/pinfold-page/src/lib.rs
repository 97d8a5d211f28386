//! The web page of Pinfold: its static files, and a small HTTP/1.1 server that serves them beside the answers of a
//! program.
//!
//! ```text
//! browser ──► server (limits, timeouts) ──► access (Host, Origin, token) ─┬─► assets: HTML, CSS, ES modules, embedded
//!                                                                         ├─► /api/...  ──► PageApi of the program: JSON
//!                                                                         └─► /api/events: a line per new generation
//! ```
//!
//! Nothing here decides anything, and no request changes anything: a POST carries a question that is too long for an
//! address. Threads and blocking sockets, so that `pinfold` links no async runtime.

use std::net::SocketAddr;

mod access;
mod api;
mod assets;
mod connections;
mod request;
mod response;
mod server;

pub use access::Token;
pub use api::{ApiRequest, ApiResponse, PageApi};
pub use server::{PageServer, ServeError, ServeLimits};

/// The address that the page is served at unless another one is named.
pub const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8095);

/// The size of all embedded files in bytes.
#[must_use]
pub fn embedded_bytes() -> usize {
    assets::ALL.iter().map(|asset| asset.content.len()).sum()
}
