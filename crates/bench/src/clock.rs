//! CPU time per operation: user and system time of this process, the least of five rounds.
//!
//! Time on a busy machine says little; CPU time suffers much less from what else runs there, and the least
//! of some rounds suffers least.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// How often an operation is measured.
const ROUNDS: u32 = 5;
/// A round takes at least this long, so that reading the clock does not show.
const ROUND_NS: u64 = 10_000_000;

/// Nanoseconds of CPU time that `operation` takes.
pub(crate) fn cpu_ns_of(mut operation: impl FnMut()) -> f64 {
    let mut times = 1;
    // Also warms up what there is to warm up.
    while round(&mut operation, times) < ROUND_NS {
        times *= 2;
    }
    let rounds = (0..ROUNDS).map(|_| round(&mut operation, times));
    let least = rounds.min().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "nobody measures that many")]
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
