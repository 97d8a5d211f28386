//! [`Bookings`]: the order of writes in which vc-scheduler keeps the CPUs that it has booked.
//!
//! vc-scheduler books the CPUs of the pods that it binds in its own copy of the Numatopology. A write with as many free
//! CPUs as before, or more, replaces that copy and ends all bookings. From a write with fewer free CPUs it takes them
//! only if its copy has at least as many. So the agent writes in this order:
//!
//! | on the node | in the object |
//! |---|---|
//! | CPUs were taken | at once, without CPUs that became free meanwhile |
//! | CPUs became free, or anything else changed | afterwards, once the kubelet has given every bound pod its CPUs, at most [`LONGEST_HOLD`] later |
//! | a bound pod got CPUs that became free after it was bound | the annotation [`ENDED`] changes: vc-scheduler booked others |
//! | a bound pod ended before the kubelet gave it CPUs | the annotation [`ENDED`] changes, which ends its booking |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;
use serde_json::Value;
use tokio::time::Instant;

use super::super::custom_resources::CustomResource;
use super::super::pod_cache::CachedPod;
use super::super::pod_set::PodSetFingerprint;

/// The annotation with the UID of the last pod whose booking a write ended: it ended before the kubelet gave it CPUs, or
/// it has CPUs that were not free when it was bound.
pub(super) const ENDED: &str = "pinfold.dev/ended-unstarted";

/// How long CPUs that became free are held back for a bound pod. A kubelet gives a pod its CPUs when it admits it, before
/// images and volumes are there.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// Bound pods with CPUs of their own that no report accounts for yet.
#[derive(Debug, Default)]
pub(super) struct Bookings {
    /// Since when each has been known.
    waiting: BTreeMap<PodUid, Instant>,
    /// One that ended, until the object has been written.
    ended: Option<PodUid>,
    /// The pods that the last report accounts for; `None` before the first.
    accounted: Option<BTreeSet<PodUid>>,
    /// Pods that were accounted for since the object was written: how many CPUs they request, and one of them.
    started: usize,
    last_started: Option<PodUid>,
}

/// What to write next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// The whole object, which ends the booking of this pod.
    All(Option<PodUid>),
    /// This object, in which fewer CPUs are free than before; the whole one at once after it, or later.
    Part(Value, Then),
    /// Nothing, until then at the latest: any write would end bookings. Whether one has to be ended then.
    Hold(Instant, bool),
}

/// When the rest of the object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Next.
    AtOnce,
    /// When the bound pods have their CPUs, or then.
    Until(Instant),
}

impl Bookings {
    /// Compares the pods that the report accounts for with those that are bound to the node.
    pub(super) fn update(&mut self, report: &PodSetFingerprint, pods: &[CachedPod], now: Instant) {
        let waiting: BTreeSet<PodUid> = report.without_cpus(pods).cloned().collect();
        let mut over = self.waiting.keys().filter(|uid| !waiting.contains(*uid));
        let ended = over.rfind(|uid| !report.accounted.contains(*uid));
        self.ended = ended.cloned().or_else(|| self.ended.take());
        if let Some(before) = &self.accounted {
            for (uid, cpus) in report.with_cpus(pods) {
                if !before.contains(uid) {
                    self.started += cpus;
                    self.last_started = Some(uid.clone());
                }
            }
        }
        self.accounted = Some(report.accounted.clone());
        self.waiting.retain(|uid, _| waiting.contains(uid));
        for uid in waiting {
            self.waiting.entry(uid).or_insert(now);
        }
    }

    /// The pod whose booking ends with the next write of this object. Only a Numatopology has bookings.
    pub(super) fn ended(&self, object: &CustomResource) -> Option<&PodUid> {
        self.ended.as_ref().filter(|_| object.is_numatopology())
    }

    /// The Numatopology was written as a whole.
    pub(super) fn forget(&mut self) {
        self.ended = None;
        self.started = 0;
        self.last_started = None;
    }

    /// The next write of a Numatopology, of which the server has `there`.
    pub(super) fn step(&self, there: &Value, wanted: &Value, now: Instant) -> Step {
        let (Some(before), Some(after)) = (free(there), free(wanted)) else {
            return Step::All(self.ended.clone());
        };
        let taken = (&before - &after).len();
        // vc-scheduler keeps its copy, in which it booked more.
        let started = self.last_started.as_ref().filter(|_| self.started > taken);
        let ends = self.ended.as_ref().or(started).cloned();
        let grows = !after.is_subset(&before) || ends.is_some();
        let held = self.waiting.values().map(|since| *since + LONGEST_HOLD);
        let then = match (taken > 0, held.filter(|end| *end > now).max()) {
            (true, _) if !grows => return Step::All(None),
            (true, Some(end)) => Then::Until(end),
            (true, None) => Then::AtOnce,
            (false, Some(end)) => return Step::Hold(end, ends.is_some()),
            (false, None) => return Step::All(ends),
        };
        let mut part = wanted.clone();
        part["spec"]["numares"]["cpu"]["allocatable"] = (&before & &after).to_string().into();
        Step::Part(part, then)
    }
}

/// The free CPUs of a Numatopology, which leaves an empty list out.
fn free(object: &Value) -> Option<CpuSet> {
    let cpu = object["spec"]["numares"]["cpu"].as_object()?;
    let list = cpu.get("allocatable").and_then(Value::as_str);
    CpuSet::parse(list.unwrap_or_default()).ok()
}

#[cfg(test)]
mod tests;
