//! [`RetryBackoff`]: delays between retries that grow exponentially and are spread randomly over nodes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Delays that double up to a maximum.
#[derive(Clone, Debug)]
pub struct RetryBackoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl RetryBackoff {
    /// Starts with the delay `first`, up to `longest`.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// Starts over with the first delay, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next delay after a failure: between half of the doubled delay and all of it.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "the sequence is infinite")]
    pub fn next(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1).min(31);
        let whole = self.first.saturating_mul(factor).min(self.longest);
        whole / 2 + jitter(whole / 2)
    }
}

/// A random duration between zero and `whole`.
#[must_use]
pub fn jitter(whole: Duration) -> Duration {
    let part = u32::try_from(random() & 0xffff).unwrap_or_default();
    whole / 0xffff * part
}

/// A random number, from the seed of the standard library's hash maps.
#[must_use]
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_over_after_a_success() {
        let mut backoff = RetryBackoff::new(Duration::from_millis(100), Duration::from_secs(2));
        for max in [100, 200, 400, 800, 1600, 2000, 2000] {
            let delay = backoff.next();
            let max = Duration::from_millis(max);
            assert!(delay >= max / 2 && delay <= max, "{delay:?} of {max:?}");
        }
        for _ in 0..100 {
            assert!(backoff.next() <= Duration::from_secs(2));
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(100));
    }
}
