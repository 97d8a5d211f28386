//! Work that many hands make light: pieces that have nothing to do with each other, done by as many threads as there are
//! CPUs. Who does which piece makes no difference to the outcome.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// More threads than this do not help: the work is over too soon.
const MOST: usize = 8;

/// How many hands there are, this one included.
pub(super) fn count() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        cpus.min(MOST)
    })
}

/// Does all pieces. Every hand has a state of its own. A thread that cannot be started leaves its part to the others.
pub(super) fn share<T: Send, S>(
    pieces: Vec<T>,
    state: impl Fn() -> S + Sync,
    act: impl Fn(&mut S, T) + Sync,
) {
    let others = count().min(pieces.len()).saturating_sub(1);
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
    use super::share;

    #[test]
    fn every_piece_is_done_once() {
        let mut numbers: Vec<u32> = (0..10_000).collect();
        let pieces: Vec<&mut [u32]> = numbers.chunks_mut(7).collect();
        share(
            pieces,
            || (),
            |(), piece| piece.iter_mut().for_each(|number| *number += 1),
        );
        assert!(numbers.iter().copied().eq(1..10_001));
        share(
            Vec::<u32>::new(),
            || (),
            |(), _| unreachable!("there is nothing to do"),
        );
    }
}
