//! How long to wait between tries.

use std::time::Duration;

/// Doubles the delay with every try that fails. Without chance: one plugin of a kind runs per
/// node, so there is no crowd to spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub longest: Duration,
}

impl Backoff {
    /// The delay after so many failures before this one.
    #[must_use]
    pub fn delay(self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// A fifth of a second, doubling up to ten: a runtime that restarts is met again soon.
impl Default for Backoff {
    fn default() -> Self {
        Backoff {
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
        let backoff = Backoff::default();
        let delays = [0, 1, 2, 5, 6, 31, 32, u32::MAX].map(|n| backoff.delay(n).as_millis());
        let expected = [200, 400, 800, 6_400, 10_000, 10_000, 10_000, 10_000];
        assert_eq!(delays, expected);
    }
}
