//! Firm promises: those that a node keeps even if one of its pods leaves too early.
//!
//! A kubelet lets pods in one by one, and where it puts one depends on who is there at that moment. A pod that leaves
//! before the kubelet has come to those that were promised a place makes it put them elsewhere than foreseen, and the
//! last of them may find its place taken. Nobody can foresee who leaves, so everybody who runs there is tried:
//!
//! ```text
//! report ── first promised ── second promised ── the pod that asks
//!        ▲                 ▲
//!        └─────────────────┴── here somebody leaves: is the last one let in all the same?
//! ```
//!
//! A promise that does not survive this is not made: the node is asked again when it has reported those before. Two that
//! leave in the same moments are not foreseen.

use std::collections::BTreeSet;
use std::time::Instant;

use pinfold_core::cluster::Dialect;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{NodeName, PodUid};

use super::Cache;
use super::kind::Kind;
use super::node::NodeRecord;
use super::pod::Asked;
use super::rebuild::{Made, View};
use crate::config::Doubt;

/// So many departures are tried; with more of them to try, a promise is not firm.
const MOST_TRIALS: usize = 128;

impl Cache {
    /// Whether a node that takes a pod takes it also if one of its pods leaves before those that its report lacks are
    /// let in. Only a report that lists pods can tell, and it is asked only where nodes in doubt are refused.
    pub(super) fn is_firm(&self, asked: &Asked, name: &NodeName, now: Instant) -> bool {
        let minds = asked.needs && self.policy.nodes.behind == Doubt::Refuse;
        !minds || self.survives_departures(asked, name, now).unwrap_or(true)
    }

    /// Whether a pod that its node does not report yet is about to hold something there.
    fn is_coming(&self, uid: &PodUid, record: &NodeRecord) -> bool {
        let holds = self.pods.get(uid).is_some_and(|pod| pod.holds);
        holds && record.lists(uid) == Some(false)
    }

    /// Whether a pod can leave: one that was never seen running will not.
    pub(super) fn may_leave(&self, uid: &PodUid, record: &NodeRecord) -> bool {
        let started = self.pods.get(uid).and_then(|pod| pod.started);
        started.is_some() || record.lists(uid) == Some(true)
    }

    /// `None` if nothing hangs on who leaves, or nobody knows who is there.
    fn survives_departures(&self, asked: &Asked, name: &NodeName, now: Instant) -> Option<bool> {
        let record = self.nodes.get(name).filter(|it| it.kind == Kind::Kubelet)?;
        let mut tenants = record.tenants.values();
        if !tenants.any(|uid| self.is_coming(uid, record)) {
            return None;
        }
        let heard = record.report.as_ref()?;
        let report = &heard.what.as_ref().ok()?.kubelet;
        let node = record.node.as_ref()?;
        let view = View {
            cache: self,
            record,
            node,
            absent: &BTreeSet::new(),
            now,
        };
        let Made { member, on_top } = view.made(record.kind).ok()?;
        let Dialect::Kubelet(ledger) = member.dialect() else {
            return None;
        };
        let coming = on_top.iter().filter(|uid| self.is_coming(uid, record));
        let coming = coming.filter_map(|uid| self.pods.get(uid));
        let coming: Vec<&Asked> = coming.map(|pod| &*pod.asked).collect();
        let is_gone = |uid: &PodUid| self.is_gone(uid, record, heard.at);
        let (mut ledger, mut used) = ((**ledger).clone(), member.used().clone());
        let mut trials = 0;
        for (at, next) in coming.iter().enumerate() {
            let report = report.caught_up(&ledger, is_gone)?;
            let there = report.state()?.pods.iter().filter(|pod| pod.holds());
            let there = there.map(|pod| &pod.uid);
            for leaver in there.filter(|uid| self.may_leave(uid, record)) {
                trials += 1;
                let own = self.pods.get(leaver).map(|pod| &pod.asked.requests);
                let without = report.replica(
                    &node.allocatable,
                    &own.map_or_else(|| used.clone(), |own| used.minus(own)),
                    |uid| uid == leaver,
                    &mut self.shelf.borrow_mut(),
                );
                let mut without = without.ok()?.ledger().clone();
                for pod in coming.iter().skip(at) {
                    admits(&mut without, pod);
                }
                if trials > MOST_TRIALS || !admits(&mut without, asked) {
                    return Some(false);
                }
            }
            if admits(&mut ledger, next) {
                used.add(&next.requests);
            }
        }
        Some(true)
    }
}

/// Lets a pod in. Whether that could be.
fn admits(ledger: &mut Ledger, asked: &Asked) -> bool {
    let admission = ledger.admit(asked.ask.pod(), &mut NoPreference);
    admission.is_ok_and(|admission| admission.decision.is_admitted())
}
