//! [`States`]: what Koordinator's plugin finds out from a pod alone, worked out once for all nodes.

use std::sync::Arc;

use smallvec::SmallVec;

use super::ask::PodAsk;
use crate::fidelity::Fidelity;
use crate::koordinator::plugin::{Args, PodState, pre_filter};
use crate::koordinator::reasons::Rejection;

type Outcome = Result<Option<PodState>, Rejection>;

/// One pod under each configuration that was met so far.
pub(super) struct States<'a> {
    ask: &'a PodAsk,
    met: SmallVec<[(Arc<Args>, Fidelity, Outcome); 1]>,
}

impl<'a> States<'a> {
    pub(super) fn of(ask: &'a PodAsk) -> Self {
        Self {
            ask,
            met: SmallVec::new(),
        }
    }

    /// The pod under one configuration.
    pub(super) fn under(&mut self, args: &Arc<Args>, fidelity: Fidelity) -> &Outcome {
        let known = self.met.iter().position(|(met, met_fidelity, _)| {
            (Arc::ptr_eq(met, args) || met == args) && *met_fidelity == fidelity
        });
        let at = known.unwrap_or_else(|| {
            let outcome = pre_filter(self.ask.koordinator(), args, fidelity);
            self.met.push((args.clone(), fidelity, outcome));
            self.met.len() - 1
        });
        &self.met[at].2
    }
}
