//! [`PodSetFingerprint`]: computes the fingerprint of the pods that a report accounts for.

use std::collections::BTreeSet;

use pinfold_core::name::PodUid;
use pinfold_core::quantity::Quantity;
use pinfold_kube::pod::StatusPhase;
use pinfold_kube::pod_fingerprint::{
    ExclusiveKinds, FingerprintMethod, exclusive_kinds, fingerprint,
};

use super::pod_cache::CachedPod;

/// Which pods the fingerprint of a report covers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSetFingerprint {
    /// The method that the report states.
    pub method: FingerprintMethod,
    /// The pods whose resources the report accounts for.
    pub accounted: BTreeSet<PodUid>,
    /// The resources that the report accounts for pod by pod.
    pub tracked: ExclusiveKinds,
}

impl PodSetFingerprint {
    /// The bound pods that request CPUs for themselves alone and that the report does not account for yet.
    pub(super) fn without_cpus<'p>(
        &'p self,
        pods: &'p [CachedPod],
    ) -> impl Iterator<Item = &'p PodUid> {
        let waiting = pods.iter().filter(|pod| {
            let spec = &pod.object.pod;
            pod.status_phase != StatusPhase::Terminated
                && self.tracked.cpus
                && exclusive_kinds(spec).cpus
                && !self.accounted.contains(&spec.uid)
        });
        waiting.map(|pod| &pod.object.pod.uid)
    }

    /// The pods of `pods` with CPUs for themselves alone that the report accounts for, and how many CPUs their containers
    /// request.
    pub(super) fn with_cpus<'p>(
        &'p self,
        pods: &'p [CachedPod],
    ) -> impl Iterator<Item = (&'p PodUid, usize)> {
        let specs = pods.iter().map(|pod| &pod.object.pod);
        let held = specs.filter(|spec| {
            self.tracked.cpus && exclusive_kinds(spec).cpus && self.accounted.contains(&spec.uid)
        });
        held.map(|spec| {
            let requests = spec
                .containers
                .iter()
                .filter_map(|own| own.requests.get("cpu"));
            let whole = requests
                .map(Quantity::milli_value)
                .filter(|cpu| cpu % 1000 == 0);
            let cpus = whole.sum::<i64>() / 1000;
            (&spec.uid, usize::try_from(cpus).unwrap_or(0))
        })
    }

    /// The fingerprint by `method` of the pods that the API server lists. A running pod that holds tracked resources
    /// and that the report does not account for yet is left out: the scheduler must not accept the report.
    pub(super) fn of(&self, pods: &[CachedPod], method: FingerprintMethod) -> String {
        let covered = pods.iter().filter(|pod| {
            let spec = &pod.object.pod;
            let held = exclusive_kinds(spec).common(self.tracked);
            let is_accounted = pod.status_phase == StatusPhase::Terminated
                || held == ExclusiveKinds::default()
                || self.accounted.contains(&spec.uid);
            is_accounted && method.covers(spec, pod.status_phase)
        });
        fingerprint(covered.map(|pod| {
            let meta = &pod.object.meta;
            (meta.namespace.as_str(), meta.name.as_str())
        }))
    }
}
