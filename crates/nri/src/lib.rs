#![doc = include_str!("../README.md")]

pub mod adjust;
pub mod api;
mod backoff;
mod dispatch;
pub mod frame;
mod identity;
mod launch;
pub mod message;
pub mod mux;
mod plugin;
mod runner;
mod session;
mod state;
pub mod ttrpc;

pub use backoff::ReconnectBackoff;
#[doc(hidden)]
pub use dispatch::handle_in_a_new_session;
pub use identity::{Identity, IdentityError};
pub use launch::LaunchError;
pub use plugin::{EventError, Plugin, RuntimeInfo};
pub use runner::{DEFAULT_SOCKET, Handle, Runner};
pub use session::SessionError;
pub use state::ConnectionState;
pub use ttrpc::CallError;
