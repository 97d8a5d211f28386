//! [`ReconnectBackoff`]: delays between connection attempts.

use std::time::Duration;

/// Doubles the delay after every failed attempt. There is no jitter: only one instance of a plugin
/// runs per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectBackoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The maximum delay.
    pub longest: Duration,
}

impl ReconnectBackoff {
    /// The delay after `attempt` earlier failures.
    #[must_use]
    pub fn delay(self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// 200 ms, doubling up to 10 s.
impl Default for ReconnectBackoff {
    fn default() -> Self {
        ReconnectBackoff {
            first: Duration::from_millis(200),
            longest: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = ReconnectBackoff::default();
        let delays = [0, 1, 2, 5, 6, 31, 32, u32::MAX].map(|n| backoff.delay(n).as_millis());
        let expected = [200, 400, 800, 6_400, 10_000, 10_000, 10_000, 10_000];
        assert_eq!(delays, expected);
    }
}
