//! [`PrefilterCache`]: the result of Koordinator's `PreFilter` for one pod, computed once for all nodes.

use std::sync::Arc;

use smallvec::SmallVec;

use super::pod_request::PodRequest;
use crate::koordinator::plugin::{KoordinatorArgs, PreFilterState, pre_filter};
use crate::koordinator::rejection::KoordinatorRejection;
use pinfold_core::fidelity::Fidelity;

/// What `PreFilter` returns for a pod: its state, `None` if the plugin skips the pod, or why it is unschedulable.
type PrefilterResult = Result<Option<PreFilterState>, KoordinatorRejection>;

/// The `PreFilter` results of one pod, one for each plugin configuration that some node uses.
pub(super) struct PrefilterCache<'a> {
    request: &'a PodRequest,
    results: SmallVec<[(Arc<KoordinatorArgs>, Fidelity, PrefilterResult); 1]>,
}

impl<'a> PrefilterCache<'a> {
    pub(super) fn new(request: &'a PodRequest) -> Self {
        Self {
            request,
            results: SmallVec::new(),
        }
    }

    /// The result under one plugin configuration; computed on the first call.
    pub(super) fn get(
        &mut self,
        args: &Arc<KoordinatorArgs>,
        fidelity: Fidelity,
    ) -> &PrefilterResult {
        let cached = self.results.iter().position(|(other, other_fidelity, _)| {
            (Arc::ptr_eq(other, args) || other == args) && *other_fidelity == fidelity
        });
        let at = cached.unwrap_or_else(|| {
            let result = pre_filter(self.request.koordinator(), args, fidelity);
            self.results.push((args.clone(), fidelity, result));
            self.results.len() - 1
        });
        &self.results[at].2
    }
}
