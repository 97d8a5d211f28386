//! [`RepairBackoff`]: the repair history of each container, which turns repeated repairs into a conflict with growing
//! pauses. The caller passes the current time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use pinfold_core::name::ContainerId;

use super::{ContainerRef, DriftCause};

/// When repeated repairs of one container count as a conflict, and how long repairs then pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairLimits {
    /// Number of repairs within [`RepairLimits::within`] that start a conflict.
    pub repairs: usize,
    /// The time window. A conflict ends when the container had no drift for this long.
    pub within: Duration,
    /// First pause of a conflict. Every further repair doubles it.
    pub first_pause: Duration,
    /// Maximum pause.
    pub longest_pause: Duration,
}

/// The defaults suit the kubelet's default CPU manager reconcile period of 10 seconds.
impl Default for RepairLimits {
    fn default() -> Self {
        Self {
            repairs: 3,
            within: Duration::from_secs(120),
            first_pause: Duration::from_secs(60),
            longest_pause: Duration::from_secs(15 * 60),
        }
    }
}

/// Another program repeatedly overwrites the repairs of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairConflict {
    /// The container.
    pub container: ContainerRef,
    /// Cause of the last drift.
    pub cause: DriftCause,
    /// Number of repairs since the conflict's first one.
    pub repairs: u64,
    /// Repairs pause until then.
    pub until: Instant,
}

impl fmt::Display for RepairConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the cgroup of {} is overwritten after every repair ({} repairs): {}",
            self.container, self.repairs, self.cause
        )
    }
}

/// The recent repairs of each container.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairBackoff {
    of: BTreeMap<ContainerId, RepairHistory>,
}

#[derive(Clone, Debug, Default)]
struct RepairHistory {
    /// Times of the last [`RepairLimits::repairs`] repairs.
    repairs: VecDeque<Instant>,
    all: u64,
    /// Set during a conflict.
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    until: Instant,
}

impl RepairBackoff {
    /// Until when repairs of `container` pause; `None` if it may be repaired now.
    pub(super) fn paused_until(&self, container: &ContainerId, now: Instant) -> Option<Instant> {
        let until = self.of.get(container)?.pause?.until;
        (until > now).then_some(until)
    }

    /// Records a repair of `container`. Returns the conflict if there is one.
    pub(super) fn record_repair(
        &mut self,
        container: &ContainerRef,
        cause: DriftCause,
        now: Instant,
        limits: &RepairLimits,
    ) -> Option<RepairConflict> {
        let history = self.of.entry(container.id.clone()).or_default();
        history.all = history.all.saturating_add(1);
        history.repairs.push_back(now);
        while history.repairs.len() > limits.repairs.max(1) {
            history.repairs.pop_front();
        }
        let first = history.repairs.front().copied().unwrap_or(now);
        let often = history.repairs.len() >= limits.repairs.max(1)
            && now.saturating_duration_since(first) <= limits.within;
        let length = match history.pause {
            Some(pause) => pause.length.saturating_mul(2).min(limits.longest_pause),
            None if often => limits.first_pause,
            None => return None,
        };
        let until = now.checked_add(length).unwrap_or(now);
        history.pause = Some(Pause { length, until });
        Some(RepairConflict {
            container: container.clone(),
            cause,
            repairs: history.all,
            until,
        })
    }

    /// Records that `container` has no drift, and drops its history if the last repair was long ago.
    pub(super) fn record_no_drift(
        &mut self,
        container: &ContainerId,
        now: Instant,
        limits: &RepairLimits,
    ) {
        let Some(history) = self.of.get(container) else {
            return;
        };
        let long = history
            .pause
            .map_or(limits.within, |pause| pause.length.max(limits.within));
        let last = history.repairs.back().copied().unwrap_or(now);
        if now.saturating_duration_since(last) > long {
            self.of.remove(container);
        }
    }

    /// Drops the history of containers for which `keep` returns false.
    pub(super) fn retain(&mut self, keep: impl Fn(&ContainerId) -> bool) {
        self.of.retain(|container, _| keep(container));
    }

    /// Number of containers in a conflict.
    pub(super) fn conflicts(&self) -> usize {
        let fought = self.of.values().filter(|history| history.pause.is_some());
        fought.count()
    }
}
