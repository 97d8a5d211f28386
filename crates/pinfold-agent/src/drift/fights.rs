//! [`Fights`]: how often a container was put right lately, and when that has become a fight. The caller says what time
//! it is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use pinfold_core::name::ContainerId;

use super::{Culprit, Who};

/// When repairs become a fight, and how they become rarer then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// So many repairs of one container ...
    pub repairs: usize,
    /// ... within this time are a fight. A container that stays in order for as long has made peace.
    pub within: Duration,
    /// How long a container is left alone when a fight begins. Every further repair doubles it ...
    pub first_pause: Duration,
    /// ... up to this.
    pub longest_pause: Duration,
}

/// The kubelet reconciles every 10 seconds unless told otherwise.
impl Default for Patience {
    fn default() -> Self {
        Self {
            repairs: 3,
            within: Duration::from_secs(120),
            first_pause: Duration::from_secs(60),
            longest_pause: Duration::from_secs(15 * 60),
        }
    }
}

/// Somebody keeps undoing the repairs of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fight {
    /// Of which.
    pub who: Who,
    /// Who it was the last time.
    pub culprit: Culprit,
    /// How many repairs were undone or may be, since the container was last in order for long.
    pub repairs: u64,
    /// When the next repair may be.
    pub until: Instant,
}

impl fmt::Display for Fight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "somebody fights us for {} ({} repairs): {}",
            self.who, self.repairs, self.culprit
        )
    }
}

/// The history of repairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Fights {
    of: BTreeMap<ContainerId, History>,
}

#[derive(Clone, Debug, Default)]
struct History {
    /// The last few.
    repairs: VecDeque<Instant>,
    all: u64,
    /// Set while a fight lasts.
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    until: Instant,
}

impl Fights {
    /// When `container` may be repaired again, if not now.
    pub(super) fn held_back(&self, container: &ContainerId, now: Instant) -> Option<Instant> {
        let until = self.of.get(container)?.pause?.until;
        (until > now).then_some(until)
    }

    /// `who` was just repaired. If that was once too often, it is a fight.
    pub(super) fn repaired(
        &mut self,
        who: &Who,
        culprit: Culprit,
        now: Instant,
        patience: &Patience,
    ) -> Option<Fight> {
        let history = self.of.entry(who.id.clone()).or_default();
        history.all = history.all.saturating_add(1);
        history.repairs.push_back(now);
        while history.repairs.len() > patience.repairs.max(1) {
            history.repairs.pop_front();
        }
        let first = history.repairs.front().copied().unwrap_or(now);
        let often = history.repairs.len() >= patience.repairs.max(1)
            && now.saturating_duration_since(first) <= patience.within;
        let length = match history.pause {
            Some(pause) => pause.length.saturating_mul(2).min(patience.longest_pause),
            None if often => patience.first_pause,
            None => return None,
        };
        let until = now.checked_add(length).unwrap_or(now);
        history.pause = Some(Pause { length, until });
        Some(Fight {
            who: who.clone(),
            culprit,
            repairs: history.all,
            until,
        })
    }

    /// `container` is as it should be. If it has been so for long, old fights are forgotten.
    pub(super) fn in_order(&mut self, container: &ContainerId, now: Instant, patience: &Patience) {
        let Some(history) = self.of.get(container) else {
            return;
        };
        let long = history
            .pause
            .map_or(patience.within, |pause| pause.length.max(patience.within));
        let last = history.repairs.back().copied().unwrap_or(now);
        if now.saturating_duration_since(last) > long {
            self.of.remove(container);
        }
    }

    /// Forgets every container that is not among `these`.
    pub(super) fn keep(&mut self, these: impl Fn(&ContainerId) -> bool) {
        self.of.retain(|container, _| these(container));
    }

    /// How many containers are fought for.
    pub(super) fn len(&self) -> usize {
        let fought = self.of.values().filter(|history| history.pause.is_some());
        fought.count()
    }
}
