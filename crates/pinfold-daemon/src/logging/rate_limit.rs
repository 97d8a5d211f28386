//! [`RateLimiter`]: how many lines each call site may write.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use tracing::callsite::Identifier;

/// Lines that one call site may write in one window.
pub(super) const LINES_PER_WINDOW: u32 = 20;
/// The length of a window.
pub(super) const WINDOW: SignedDuration = SignedDuration::from_secs(10);

/// Counts the lines of every call site in its current window.
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    windows: HashMap<Identifier, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Timestamp,
    written: u32,
    suppressed: u64,
}

impl RateLimiter {
    /// Whether a call site may write a line now. `Some` has the number of its lines that were suppressed in the window
    /// before; `None` suppresses this one.
    pub(super) fn admit(&mut self, callsite: Identifier, now: Timestamp) -> Option<u64> {
        let new = Window {
            start: now,
            written: 0,
            suppressed: 0,
        };
        let window = self.windows.entry(callsite).or_insert(new);
        let mut suppressed = 0;
        // A clock that was set back starts a new window too.
        if now.duration_since(window.start).abs() >= WINDOW {
            suppressed = window.suppressed;
            *window = new;
        }
        if window.written == LINES_PER_WINDOW {
            window.suppressed = window.suppressed.saturating_add(1);
            return None;
        }
        window.written += 1;
        Some(suppressed)
    }
}
