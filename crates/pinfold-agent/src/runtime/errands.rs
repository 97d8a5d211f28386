//! [`Errands`]: work that may take longer than a runtime waits. It goes on when nobody waits any more, and who asks again
//! gets what came of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Errands at a time. Each is a thread.
const MOST: usize = 64;

/// Errands by what they are for. All copies are the same.
#[derive(Debug)]
pub(super) struct Errands<K, V> {
    shared: Arc<Shared<K, V>>,
}

/// What came of each; `None` while it is being done.
type Results<K, V> = BTreeMap<K, Option<Result<V, String>>>;

#[derive(Debug)]
struct Shared<K, V> {
    results: Mutex<Results<K, V>>,
    done: Condvar,
}

impl<K, V> Shared<K, V> {
    /// The map is changed in single steps, so a panic elsewhere leaves it whole.
    fn results(&self) -> MutexGuard<'_, Results<K, V>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Default for Errands<K, V> {
    fn default() -> Self {
        let shared = Shared {
            results: Mutex::new(BTreeMap::new()),
            done: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl<K, V> Errands<K, V>
where
    K: Ord + Clone + Send + 'static,
    V: Send + 'static,
{
    /// Does the work, unless it is being done already, and waits for it so long. What came of it; `None` if it is not
    /// done yet.
    ///
    /// # Errors
    /// What the work said, or that there is too much of it.
    pub(super) fn run(
        &self,
        key: &K,
        wait: Duration,
        work: impl FnOnce() -> Result<V, String> + Send + 'static,
    ) -> Result<Option<V>, String> {
        let mut results = self.shared.results();
        if !results.contains_key(key) {
            if results.len() >= MOST {
                // Nobody came back for these.
                results.retain(|_, result| result.is_none());
            }
            if results.len() >= MOST {
                return Err(format!("{MOST} others are being waited for; try again"));
            }
            let (shared, own) = (self.shared.clone(), key.clone());
            let errand = move || {
                let result = Unfinished(&shared, &own).finish(work);
                shared.results().insert(own, Some(result));
                shared.done.notify_all();
            };
            let thread = thread::Builder::new().name("errand".to_owned());
            thread.spawn(errand).map_err(|error| error.to_string())?;
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

/// Work in progress: if it panics, nobody waits for it for ever.
struct Unfinished<'a, K: Ord, V>(&'a Shared<K, V>, &'a K);

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

    /// Only guards against hanging.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn work_that_is_done_in_time_is_answered_at_once() {
        let errands = Errands::default();
        assert_eq!(errands.run(&1, LONG, || Ok("yes")), Ok(Some("yes")));
        let failed = errands.run(&1, LONG, || Err("no".to_owned()));
        assert_eq!(failed, Err("no".to_owned()));
        assert_eq!(errands.run(&1, LONG, || Ok("again")), Ok(Some("again")));
    }

    #[test]
    fn slow_work_goes_on_and_is_there_for_who_asks_again() {
        let errands = Errands::default();
        let (go, gate) = channel::<()>();
        let slow = move || {
            let _ = gate.recv();
            Ok("at last")
        };
        assert_eq!(errands.run(&1, Duration::ZERO, slow), Ok(None));
        // It is not begun a second time.
        let never = || -> Result<&str, String> { Err("begun twice".to_owned()) };
        assert_eq!(errands.run(&1, Duration::ZERO, never), Ok(None));
        drop(go);
        let never = || -> Result<&str, String> { Err("begun twice".to_owned()) };
        assert_eq!(errands.run(&1, LONG, never), Ok(Some("at last")));
    }

    #[test]
    fn there_is_an_end_to_how_much_is_waited_for_and_a_panic_is_none_of_it() {
        let errands = Errands::<usize, ()>::default();
        let (go, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for key in 0..MOST {
            let gate = gate.clone();
            let slow = move || {
                let _ = gate.lock().map(|gate| gate.recv());
                Ok(())
            };
            assert_eq!(errands.run(&key, Duration::ZERO, slow), Ok(None));
        }
        assert!(errands.run(&MOST, LONG, || Ok(())).is_err());
        drop(go);
        for key in 0..MOST {
            assert_eq!(errands.run(&key, LONG, || Ok(())), Ok(Some(())));
        }
        let panics = || -> Result<(), String> { panic!("on purpose") };
        assert_eq!(errands.run(&0, LONG, panics), Ok(None));
        assert_eq!(errands.run(&0, LONG, || Ok(())), Ok(Some(())));
    }
}
