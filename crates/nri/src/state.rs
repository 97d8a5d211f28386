//! Whether a plugin is connected, for metrics and health checks.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::plugin::RuntimeInfo;

/// Where a plugin is on its way to a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// [`crate::Runner::run`] was not called yet.
    #[default]
    Idle,
    /// Connecting, registering, being configured and synchronized.
    Connecting {
        /// How many tries went before since the last session that came about.
        attempt: u32,
    },
    /// Events arrive. In any other state containers start without the plugin.
    Connected {
        /// The runtime.
        runtime: RuntimeInfo,
    },
    /// The last try or session failed; the next try comes after a while.
    Waiting {
        /// How many tries went before since the last session that came about.
        attempt: u32,
        /// How long it waits.
        delay: Duration,
        /// Why the last one failed.
        problem: String,
    },
    /// [`crate::Runner::run`] returned.
    Stopped,
}

impl State {
    /// Whether events arrive.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self, State::Connected { .. })
    }
}

/// A state that threads can wait for changes of.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> State {
        self.lock().clone()
    }

    pub(crate) fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// Waits until the state is as wished; gives back the last one seen.
    pub(crate) fn wait(&self, timeout: Duration, wished: impl Fn(&State) -> bool) -> State {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        while !wished(&state) {
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
