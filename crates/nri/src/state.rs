//! [`ConnectionState`]: whether a plugin is connected, for metrics and health checks.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::plugin::RuntimeInfo;

/// The connection state of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// [`crate::Runner::run`] was not called yet.
    #[default]
    Idle,
    /// Connecting, registering, being configured and synchronized.
    Connecting {
        /// Number of failed attempts since the last established session.
        attempt: u32,
    },
    /// The session is established and events arrive. In any other state containers start without the plugin.
    Connected {
        /// The connected runtime.
        runtime: RuntimeInfo,
    },
    /// The last attempt or session failed; the next attempt follows after `delay`.
    Waiting {
        /// Number of failed attempts since the last established session.
        attempt: u32,
        /// Time until the next attempt.
        delay: Duration,
        /// Why the last attempt or session failed.
        problem: String,
    },
    /// [`crate::Runner::run`] returned.
    Stopped,
}

impl ConnectionState {
    /// Whether the session is established.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self, ConnectionState::Connected { .. })
    }
}

/// A connection state whose changes threads can wait for.
#[derive(Debug, Default)]
pub(crate) struct StateWatch {
    state: Mutex<ConnectionState>,
    changed: Condvar,
}

impl StateWatch {
    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> ConnectionState {
        self.lock().clone()
    }

    pub(crate) fn set(&self, state: ConnectionState) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// Waits until the predicate holds or the timeout expires; returns the last state.
    pub(crate) fn wait(
        &self,
        timeout: Duration,
        predicate: impl Fn(&ConnectionState) -> bool,
    ) -> ConnectionState {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        while !predicate(&state) {
            let left =
                deadline.map_or(timeout, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            let (next, _) = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
        state.clone()
    }
}
