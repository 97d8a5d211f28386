//! [`BackgroundCalls`]: calls to device plugins that may take longer than the runtime waits for an NRI answer. A call keeps
//! running after its caller has given up, and the next caller with the same key gets its result.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum number of calls at a time. Each has a thread.
const MAX_CALLS: usize = 64;

/// Running and finished calls by key.
#[derive(Debug)]
pub(super) struct BackgroundCalls<K, V> {
    shared: Arc<CallResults<K, V>>,
}

/// Result of each call; `None` while it runs.
type Results<K, V> = BTreeMap<K, Option<Result<V, String>>>;

#[derive(Debug)]
struct CallResults<K, V> {
    results: Mutex<Results<K, V>>,
    done: Condvar,
}

impl<K, V> CallResults<K, V> {
    /// Locks the results, also after a panic of another thread: each change of the map is atomic.
    fn results(&self) -> MutexGuard<'_, Results<K, V>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Default for BackgroundCalls<K, V> {
    fn default() -> Self {
        let shared = CallResults {
            results: Mutex::new(BTreeMap::new()),
            done: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl<K, V> BackgroundCalls<K, V>
where
    K: Ord + Clone + Send + 'static,
    V: Send + 'static,
{
    /// Starts the call unless it is running already, and waits up to `wait` for its result. `None` if it is still
    /// running; a later call with the same key returns the result.
    ///
    /// # Errors
    /// The error of the call, or that too many calls are running.
    pub(super) fn run(
        &self,
        key: &K,
        wait: Duration,
        work: impl FnOnce() -> Result<V, String> + Send + 'static,
    ) -> Result<Option<V>, String> {
        let mut results = self.shared.results();
        if !results.contains_key(key) {
            if results.len() >= MAX_CALLS {
                // Finished results that were not fetched make room.
                results.retain(|_, result| result.is_none());
            }
            if results.len() >= MAX_CALLS {
                return Err(format!(
                    "{MAX_CALLS} device plugin calls are running; try again"
                ));
            }
            let (shared, own) = (self.shared.clone(), key.clone());
            let call = move || {
                let result = Unfinished(&shared, &own).finish(work);
                shared.results().insert(own, Some(result));
                shared.done.notify_all();
            };
            let thread = thread::Builder::new().name("background-call".to_owned());
            thread.spawn(call).map_err(|error| error.to_string())?;
            results.insert(key.clone(), None);
        }
        let pending = |results: &mut Results<K, V>| matches!(results.get(key), Some(None));
        let waited = self.shared.done.wait_timeout_while(results, wait, pending);
        let (mut results, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match results.get(key) {
            Some(None) => Ok(None),
            _ => results.remove(key).flatten().transpose(),
        }
    }
}

/// Removes the entry of a call that panics, so that no caller waits for it.
struct Unfinished<'a, K: Ord, V>(&'a CallResults<K, V>, &'a K);

impl<K: Ord, V> Unfinished<'_, K, V> {
    fn finish(self, work: impl FnOnce() -> Result<V, String>) -> Result<V, String> {
        let result = work();
        std::mem::forget(self);
        result
    }
}

impl<K: Ord, V> Drop for Unfinished<'_, K, V> {
    fn drop(&mut self) {
        self.0.results().remove(self.1);
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Longer than any test takes; guards against hanging.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_call_that_finishes_in_time_returns_its_result() {
        let calls = BackgroundCalls::default();
        assert_eq!(calls.run(&1, LONG, || Ok("yes")), Ok(Some("yes")));
        let failed = calls.run(&1, LONG, || Err("no".to_owned()));
        assert_eq!(failed, Err("no".to_owned()));
        assert_eq!(calls.run(&1, LONG, || Ok("again")), Ok(Some("again")));
    }

    #[test]
    fn a_slow_call_keeps_running_and_a_later_call_returns_its_result() {
        let calls = BackgroundCalls::default();
        let (go, gate) = channel::<()>();
        let slow = move || {
            let _ = gate.recv();
            Ok("at last")
        };
        assert_eq!(calls.run(&1, Duration::ZERO, slow), Ok(None));
        // It is not started a second time.
        let never = || -> Result<&str, String> { Err("begun twice".to_owned()) };
        assert_eq!(calls.run(&1, Duration::ZERO, never), Ok(None));
        drop(go);
        let never = || -> Result<&str, String> { Err("begun twice".to_owned()) };
        assert_eq!(calls.run(&1, LONG, never), Ok(Some("at last")));
    }

    #[test]
    fn the_number_of_calls_is_limited_and_a_call_that_panicked_does_not_count() {
        let calls = BackgroundCalls::<usize, ()>::default();
        let (go, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for key in 0..MAX_CALLS {
            let gate = gate.clone();
            let slow = move || {
                let _ = gate.lock().map(|gate| gate.recv());
                Ok(())
            };
            assert_eq!(calls.run(&key, Duration::ZERO, slow), Ok(None));
        }
        assert!(calls.run(&MAX_CALLS, LONG, || Ok(())).is_err());
        drop(go);
        for key in 0..MAX_CALLS {
            assert_eq!(calls.run(&key, LONG, || Ok(())), Ok(Some(())));
        }
        let panics = || -> Result<(), String> { panic!("on purpose") };
        assert_eq!(calls.run(&0, LONG, panics), Ok(None));
        assert_eq!(calls.run(&0, LONG, || Ok(())), Ok(Some(())));
    }
}
