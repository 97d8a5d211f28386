//! [`Watch`]: looks at every container, repairs what drifted, counts who it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_cgroup::{CgroupError, Hierarchy};
use pinfold_core::name::ContainerId;

use super::compare::compare;
use super::enforce::{enforce, look};
use super::fights::{Fight, Fights, Patience};
use super::{Culprit, Drift, Evidence, Watched, Who};

/// What has drifted so far, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    patience: Patience,
    migrate_memory: Option<bool>,
    fights: Fights,
    /// What was found and left as it was, so that it is counted once.
    left: BTreeMap<ContainerId, Drift>,
    tally: BTreeMap<Culprit, Tally>,
}

/// How often something happened, of one culprit's doing. Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// A container drifted.
    pub drifted: u64,
    /// It was put right.
    pub repaired: u64,
    /// It could not be put right.
    pub failed: u64,
    /// It was left alone for now, because of a fight.
    pub held_back: u64,
}

/// What one look at all containers found.
#[derive(Debug, Default)]
pub struct Round {
    /// Everything that had drifted, and what came of it.
    pub drifts: Vec<(Drift, Outcome)>,
    /// Fights that began or grew worse. To be told loudly.
    pub fights: Vec<Fight>,
    /// Containers that ended meanwhile.
    pub gone: Vec<Who>,
    /// Containers that could not be looked at.
    pub unseen: Vec<(Who, CgroupError)>,
}

/// What came of a drift.
#[derive(Debug)]
pub enum Outcome {
    /// It is as it should be again.
    Repaired,
    /// Somebody keeps undoing repairs; the next one may be at this time.
    HeldBack(Instant),
    /// No write brings a CPU back that is offline.
    Beyond,
    /// The repair failed.
    Failed(CgroupError),
    /// The container ended during the repair.
    Ended,
}

impl Watch {
    /// A watch that has seen nothing yet. `migrate_memory` as in [`CgroupSettings`](pinfold_cgroup::Wanted).
    #[must_use]
    pub fn new(patience: Patience, migrate_memory: Option<bool>) -> Self {
        Self {
            patience,
            migrate_memory,
            ..Self::default()
        }
    }

    /// From now on memory moves along, or does not.
    pub fn migrate_memory(&mut self, migrate: bool) {
        self.migrate_memory = Some(migrate);
    }

    /// What was counted for one culprit.
    #[must_use]
    pub fn tally(&self, culprit: Culprit) -> Tally {
        self.tally.get(&culprit).copied().unwrap_or_default()
    }

    /// How many containers somebody fights us for.
    #[must_use]
    pub fn fights(&self) -> usize {
        self.fights.len()
    }

    /// Looks at every container and repairs what drifted. `containers` are all that run: whoever is missing is
    /// forgotten. `now` must not go back.
    pub fn round(
        &mut self,
        hierarchy: &Hierarchy,
        containers: &[Watched],
        evidence: &Evidence,
        now: Instant,
    ) -> Round {
        self.round_of(hierarchy, containers, evidence, now, &|_| true)
    }

    /// The same where what containers should have changes meanwhile: whoever seems to have drifted is left alone unless
    /// `is_settled` says that it still should have that, and had time to get it.
    pub fn round_of(
        &mut self,
        hierarchy: &Hierarchy,
        containers: &[Watched],
        evidence: &Evidence,
        now: Instant,
        is_settled: &dyn Fn(&Watched) -> bool,
    ) -> Round {
        let here: BTreeSet<&ContainerId> = containers.iter().map(|one| &one.who.id).collect();
        self.fights.keep(|container| here.contains(container));
        self.left.retain(|container, _| here.contains(container));
        let mut round = Round::default();
        for watched in containers {
            let who = &watched.who;
            match look(hierarchy, &watched.group) {
                Ok(found) => match compare(watched, &found, evidence) {
                    Some(_) if !is_settled(watched) => {}
                    Some(drift) => {
                        let outcome =
                            self.treat(hierarchy, watched, &drift, evidence, now, &mut round);
                        round.drifts.push((drift, outcome));
                    }
                    None => {
                        self.left.remove(&who.id);
                        self.fights.in_order(&who.id, now, &self.patience);
                    }
                },
                Err(error) if error.is_vanished() => round.gone.push(who.clone()),
                Err(error) => round.unseen.push((who.clone(), error)),
            }
        }
        round
    }

    fn treat(
        &mut self,
        hierarchy: &Hierarchy,
        watched: &Watched,
        drift: &Drift,
        evidence: &Evidence,
        now: Instant,
        round: &mut Round,
    ) -> Outcome {
        let id = &watched.who.id;
        let tally = self.tally.entry(drift.culprit).or_default();
        if self.left.get(id) != Some(drift) {
            tally.drifted = tally.drifted.saturating_add(1);
            self.left.insert(id.clone(), drift.clone());
        }
        if drift.culprit == Culprit::CpuOffline {
            return Outcome::Beyond;
        }
        if let Some(until) = self.fights.held_back(id, now) {
            tally.held_back = tally.held_back.saturating_add(1);
            return Outcome::HeldBack(until);
        }
        let repaired = enforce(
            hierarchy,
            &watched.group,
            &watched.expected,
            &evidence.online,
            self.migrate_memory,
        );
        match repaired {
            Ok(_) => {
                tally.repaired = tally.repaired.saturating_add(1);
                self.left.remove(id);
                let fight = self
                    .fights
                    .repaired(&watched.who, drift.culprit, now, &self.patience);
                round.fights.extend(fight);
                Outcome::Repaired
            }
            Err(error) if error.is_vanished() => Outcome::Ended,
            Err(error) => {
                tally.failed = tally.failed.saturating_add(1);
                Outcome::Failed(error)
            }
        }
    }
}
