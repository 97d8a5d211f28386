//! [`RemedyTrial`]: admissions that are reverted again, counted against a budget.

use std::sync::Arc;

use crate::decision::{AdmissionResult, Assignment};
use crate::device::PreferredAllocation;
use crate::ledger::{Change, Ledger};
use crate::pod::Pod;

/// The number of candidates that are tried one by one; the rest is searched by bisection.
const ONE_BY_ONE: usize = 256;

/// The budget of a search and its progress.
pub(super) struct RemedyTrial<'p> {
    plugins: &'p mut dyn PreferredAllocation,
    /// The number of admissions that may still be tried.
    pub(super) left: usize,
    /// The number of admissions tried.
    pub(super) tried: usize,
    /// Whether no candidate was left out so far.
    pub(super) complete: bool,
}

/// The first candidate that was admitted.
pub(super) struct FirstAdmitted {
    /// Its index.
    pub(super) at: usize,
    /// The assignment of the pod.
    pub(super) assignment: Assignment,
    /// Whether every candidate before it was tried.
    pub(super) nearest: bool,
}

impl<'p> RemedyTrial<'p> {
    pub(super) fn new(plugins: &'p mut dyn PreferredAllocation, left: usize) -> Self {
        Self {
            plugins,
            left,
            tried: 0,
            complete: true,
        }
    }

    /// The assignment of `pod` on `ledger`, which is unchanged afterwards. `None` if the pod is rejected or no trials
    /// are left.
    pub(super) fn admit(&mut self, ledger: &mut Ledger, pod: &Arc<Pod>) -> Option<Assignment> {
        let (change, assignment) = self.admit_and_keep(ledger, pod)?;
        revert(ledger, &change);
        Some(assignment)
    }

    /// Admits `pod` to `ledger`. `None` if it is rejected or no trials are left; the ledger is unchanged then.
    pub(super) fn admit_and_keep(
        &mut self,
        ledger: &mut Ledger,
        pod: &Arc<Pod>,
    ) -> Option<(Change, Assignment)> {
        let Some(left) = self.left.checked_sub(1) else {
            self.complete = false;
            return None;
        };
        self.left = left;
        self.tried += 1;
        let admission = ledger.admit(pod, self.plugins).ok()?;
        match (admission.decision.result, admission.change) {
            (AdmissionResult::Admitted(assignment), Some(change)) => Some((change, assignment)),
            (_, change) => {
                change.iter().for_each(|change| revert(ledger, change));
                None
            }
        }
    }

    /// Runs a search on a part of the budget.
    pub(super) fn with_share(&mut self, share: usize, search: impl FnOnce(&mut Self)) {
        let kept = self.left.saturating_sub(share);
        self.left -= kept;
        search(self);
        self.left += kept;
    }

    /// The first of `count` candidates, best first, for which `fits` returns an assignment. The first [`ONE_BY_ONE`]
    /// are tried in turn; if none of them fits, the last one is tried and the border is searched by bisection, which
    /// finds a candidate that fits next to one that does not, but not always the best one.
    pub(super) fn first(
        &mut self,
        count: usize,
        mut fits: impl FnMut(&mut Self, usize) -> Option<Assignment>,
    ) -> Option<FirstAdmitted> {
        for at in 0..count.min(ONE_BY_ONE) {
            if let Some(assignment) = fits(self, at) {
                return Some(FirstAdmitted {
                    at,
                    assignment,
                    nearest: true,
                });
            }
            if self.left == 0 {
                self.complete &= at + 1 == count;
                return None;
            }
        }
        if count <= ONE_BY_ONE {
            return None;
        }
        self.complete = false;
        let (mut rejected, mut at) = (ONE_BY_ONE - 1, count - 1);
        let mut best = fits(self, at)?;
        while at - rejected > 1 {
            let middle = rejected + (at - rejected) / 2;
            match fits(self, middle) {
                Some(assignment) => (at, best) = (middle, assignment),
                None => rejected = middle,
            }
        }
        Some(FirstAdmitted {
            at,
            assignment: best,
            nearest: false,
        })
    }
}

fn revert(ledger: &mut Ledger, change: &Change) {
    ledger
        .undo(change)
        .expect("the change that was just made can be reverted");
}
