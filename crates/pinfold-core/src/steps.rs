//! Counts the work of a decision in tests, so that its growth can be checked without a clock: copies and comparisons of
//! names, and words of CPU sets. Outside of tests nothing is counted.

#[cfg(not(test))]
pub(crate) fn add(_steps: usize) {}

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(crate) fn add(steps: usize) {
    STEPS.with(|count| count.set(count.get() + steps));
}

/// The steps of `work` on this thread.
#[cfg(test)]
pub(crate) fn of(work: impl FnOnce()) -> usize {
    let before = STEPS.with(std::cell::Cell::get);
    work();
    STEPS.with(std::cell::Cell::get) - before
}
