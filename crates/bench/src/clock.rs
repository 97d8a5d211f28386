//! CPU time per operation: user and system time of this process, the least of five rounds.
//!
//! On a busy machine CPU time varies much less than elapsed time, and the least of several rounds varies least.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// How many rounds an operation is measured.
const ROUNDS: u32 = 5;
/// The shortest round, so that the cost of reading the clock is negligible.
const ROUND_NS: u64 = 10_000_000;

/// Nanoseconds of CPU time that `operation` takes.
pub(crate) fn cpu_ns_of(mut operation: impl FnMut()) -> f64 {
    let mut times = 1;
    // Also warms up caches.
    while round(&mut operation, times) < ROUND_NS {
        times *= 2;
    }
    let rounds = (0..ROUNDS).map(|_| round(&mut operation, times));
    let least = rounds.min().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
    let per_operation = least as f64 / times as f64;
    per_operation
}

fn round(operation: &mut impl FnMut(), times: u64) -> u64 {
    let start = now();
    for _ in 0..times {
        black_box(&mut *operation)();
    }
    now() - start
}

/// CPU time of this process so far.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}
