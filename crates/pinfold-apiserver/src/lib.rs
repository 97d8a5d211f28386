//! A client of the Kubernetes API server: bounded requests, reflectors (list and watch), pod events.
//!
//! ```text
//! Connection ──► ApiClient: one request, bounded in time and size
//!                 ├──► snapshot: all objects of some resources, once
//!                 ├──► Reflector: list, then watch; keeps a Store up to date
//!                 └──► EventQueue: warnings about pods, counted and rate limited
//! ```
//!
//! Objects are passed as JSON; the caller parses them. Nothing here panics on a malformed response, and no error or log
//! line contains a credential.

mod api_client;
mod backoff;
mod connection;
pub mod events;
mod list_page;
pub mod reflector;
pub mod snapshot;

pub use api_client::{ApiClient, ApiError, percent_encode, truncate};
pub use backoff::{RetryBackoff, jitter, random};
pub use connection::{Connection, ConnectionError};
pub use events::{EventQueue, MAX_MESSAGE, Warning};
pub use reflector::{Reflector, ReflectorStatus, Store, WatchTarget};

use std::time::Duration;

/// The timeout of requests and the delays between retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The timeout of one request.
    pub request_timeout: Duration,
    /// The delay after the first failure; it doubles with every further one.
    pub first_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// The delays between retries.
    #[must_use]
    pub fn backoff(&self) -> RetryBackoff {
        RetryBackoff::new(self.first_delay, self.max_delay)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
        }
    }
}
