//! The API server, asked within limits: requests, lists that are followed, events.
//!
//! ```text
//! Connection ──► Api: one request, bounded in time and size
//!                 ├──► snapshot: all objects of some kinds, once
//!                 ├──► Follower: list, then watch; a Sink hears of every object
//!                 └──► Events: what happened to pods, counted and rationed
//! ```
//!
//! Objects go in and out as JSON; what they mean is their owner's affair. Nothing here panics on what a server says, and
//! nothing of a credential is ever shown.

mod api;
mod backoff;
mod connection;
pub mod events;
pub mod follow;
pub mod object;
pub mod snapshot;

pub use api::{Api, ApiError, escaped, shortened};
pub use backoff::{Backoff, jitter, random};
pub use connection::{Connection, ConnectionError};
pub use events::{Events, MAX_MESSAGE, Warning};
pub use follow::{Follower, Note, Sink, Source};

use std::time::Duration;

/// How long requests take, and how failures are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The longest that one request may take.
    pub request: Duration,
    /// The wait after a first failure; it doubles with every further one.
    pub first_retry: Duration,
    /// The longest wait after a failure.
    pub longest_retry: Duration,
}

impl Patience {
    /// The waits, one after the other.
    #[must_use]
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.first_retry, self.longest_retry)
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            first_retry: Duration::from_millis(500),
            longest_retry: Duration::from_secs(30),
        }
    }
}
