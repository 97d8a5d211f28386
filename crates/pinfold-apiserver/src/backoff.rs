//! [`Backoff`]: how long to wait after a failure, longer each time and never in step with other nodes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Waits that double up to a limit.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// The first wait, and the longest.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// It worked.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// It failed: wait between half of the time and all of it.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1).min(31);
        let whole = self.first.saturating_mul(factor).min(self.longest);
        whole / 2 + jitter(whole / 2)
    }
}

/// Between nothing and all of it.
#[must_use]
pub fn jitter(whole: Duration) -> Duration {
    let part = u32::try_from(random() & 0xffff).unwrap_or_default();
    whole / 0xffff * part
}

/// A number that nobody foresees: the standard library seeds its maps with it.
#[must_use]
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over_when_it_worked() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        for most in [100, 200, 400, 800, 1600, 2000, 2000] {
            let wait = backoff.next();
            let most = Duration::from_millis(most);
            assert!(wait >= most / 2 && wait <= most, "{wait:?} of {most:?}");
        }
        for _ in 0..100 {
            assert!(backoff.next() <= Duration::from_secs(2));
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(100));
    }
}
