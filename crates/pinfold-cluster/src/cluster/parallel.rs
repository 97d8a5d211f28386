//! Runs independent pieces of work on all CPUs. The result does not depend on which thread runs which piece.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// The most threads that are used. The work is too short for more of them to help.
const MAX_THREADS: usize = 8;

/// How many threads to use, the calling thread included: one per CPU, at most [`MAX_THREADS`].
pub(super) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        cpus.min(MAX_THREADS)
    })
}

/// Calls `act` once for every piece. Each thread has its own `state`. If a thread cannot be started, the other threads
/// process its pieces.
pub(super) fn for_each<T: Send, S>(
    pieces: Vec<T>,
    state: impl Fn() -> S + Sync,
    act: impl Fn(&mut S, T) + Sync,
) {
    let others = threads().min(pieces.len()).saturating_sub(1);
    let left = Mutex::new(pieces);
    let work = || {
        let mut state = state();
        loop {
            let piece = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match piece {
                Some(piece) => act(&mut state, piece),
                None => break,
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..others {
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::for_each;

    #[test]
    fn every_piece_is_processed_once() {
        let mut numbers: Vec<u32> = (0..10_000).collect();
        let pieces: Vec<&mut [u32]> = numbers.chunks_mut(7).collect();
        for_each(
            pieces,
            || (),
            |(), piece| piece.iter_mut().for_each(|number| *number += 1),
        );
        assert!(numbers.iter().copied().eq(1..10_001));
        for_each(
            Vec::<u32>::new(),
            || (),
            |(), _| unreachable!("there are no pieces"),
        );
    }
}
