//! [`DriftMonitor`]: compares the cgroups of all containers, repairs drift, and counts it by cause.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_cgroup::{CgroupError, Hierarchy};
use pinfold_core::name::ContainerId;

use super::compare::compare;
use super::enforce::{enforce, observe};
use super::repair_backoff::{RepairBackoff, RepairConflict, RepairLimits};
use super::{ContainerRef, Drift, DriftCause, Evidence, WatchedContainer};

/// Finds and repairs drift, and keeps counters and the repair backoff between scans.
#[derive(Clone, Debug, Default)]
pub struct DriftMonitor {
    limits: RepairLimits,
    migrate_memory: Option<bool>,
    backoff: RepairBackoff,
    /// Drifts that were counted and not repaired yet, so that each is counted once.
    unrepaired: BTreeMap<ContainerId, Drift>,
    counters: BTreeMap<DriftCause, DriftCounters>,
}

/// Counters of one cause since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriftCounters {
    /// Drifts found.
    pub drifted: u64,
    /// Repairs that succeeded.
    pub repaired: u64,
    /// Repairs that failed.
    pub failed: u64,
    /// Repairs that were postponed because of a conflict.
    pub backed_off: u64,
}

/// The result of one scan of all containers.
#[derive(Debug, Default)]
pub struct DriftScan {
    /// The drifts found, and the outcome of each repair.
    pub drifts: Vec<(Drift, RepairOutcome)>,
    /// Conflicts that began or whose pause was doubled.
    pub conflicts: Vec<RepairConflict>,
    /// Containers whose cgroup does not exist any more.
    pub gone: Vec<ContainerRef>,
    /// Containers whose cgroup could not be read.
    pub unreadable: Vec<(ContainerRef, CgroupError)>,
}

/// The outcome of a repair.
#[derive(Debug)]
pub enum RepairOutcome {
    /// The cgroup matches the allowance again.
    Repaired,
    /// Another program overwrites repairs: no repair before this time.
    BackedOff(Instant),
    /// A CPU is offline, which no write to a cgroup can change.
    NotRepairable,
    /// Writing to the cgroup failed.
    Failed(CgroupError),
    /// The container terminated during the repair.
    ContainerEnded,
}

impl DriftMonitor {
    /// A monitor without history. `migrate_memory` as in [`CgroupSettings`](pinfold_cgroup::CgroupSettings).
    #[must_use]
    pub fn new(limits: RepairLimits, migrate_memory: Option<bool>) -> Self {
        Self {
            limits,
            migrate_memory,
            ..Self::default()
        }
    }

    /// Sets whether repairs also migrate memory pages (`cpuset.memory_migrate`).
    pub fn migrate_memory(&mut self, migrate: bool) {
        self.migrate_memory = Some(migrate);
    }

    /// The counters of one cause.
    #[must_use]
    pub fn counters(&self, cause: DriftCause) -> DriftCounters {
        self.counters.get(&cause).copied().unwrap_or_default()
    }

    /// Number of containers in a conflict.
    #[must_use]
    pub fn conflicts(&self) -> usize {
        self.backoff.conflicts()
    }

    /// Compares all running containers with their allowances and repairs drift. State of containers that are not in
    /// `containers` is dropped. `now` must not go backwards.
    pub fn scan(
        &mut self,
        hierarchy: &Hierarchy,
        containers: &[WatchedContainer],
        evidence: &Evidence,
        now: Instant,
    ) -> DriftScan {
        self.scan_settled(hierarchy, containers, evidence, now, &|_| true)
    }

    /// Like [`DriftMonitor::scan`], for allowances that change during the scan: repairs a container only if
    /// `is_settled` confirms that its allowance is unchanged and that the runtime had time to apply it.
    pub fn scan_settled(
        &mut self,
        hierarchy: &Hierarchy,
        containers: &[WatchedContainer],
        evidence: &Evidence,
        now: Instant,
        is_settled: &dyn Fn(&WatchedContainer) -> bool,
    ) -> DriftScan {
        let here: BTreeSet<&ContainerId> = containers.iter().map(|one| &one.container.id).collect();
        self.backoff.retain(|container| here.contains(container));
        self.unrepaired
            .retain(|container, _| here.contains(container));
        let mut scan = DriftScan::default();
        for watched in containers {
            let container = &watched.container;
            match observe(hierarchy, &watched.group) {
                Ok(found) => match compare(watched, &found, evidence) {
                    Some(_) if !is_settled(watched) => {}
                    Some(drift) => {
                        let outcome =
                            self.repair(hierarchy, watched, &drift, evidence, now, &mut scan);
                        scan.drifts.push((drift, outcome));
                    }
                    None => {
                        self.unrepaired.remove(&container.id);
                        self.backoff
                            .record_no_drift(&container.id, now, &self.limits);
                    }
                },
                Err(error) if error.is_vanished() => scan.gone.push(container.clone()),
                Err(error) => scan.unreadable.push((container.clone(), error)),
            }
        }
        scan
    }

    fn repair(
        &mut self,
        hierarchy: &Hierarchy,
        watched: &WatchedContainer,
        drift: &Drift,
        evidence: &Evidence,
        now: Instant,
        scan: &mut DriftScan,
    ) -> RepairOutcome {
        let id = &watched.container.id;
        let counters = self.counters.entry(drift.cause).or_default();
        if self.unrepaired.get(id) != Some(drift) {
            counters.drifted = counters.drifted.saturating_add(1);
            self.unrepaired.insert(id.clone(), drift.clone());
        }
        if drift.cause == DriftCause::CpuOffline {
            return RepairOutcome::NotRepairable;
        }
        if let Some(until) = self.backoff.paused_until(id, now) {
            counters.backed_off = counters.backed_off.saturating_add(1);
            return RepairOutcome::BackedOff(until);
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
                counters.repaired = counters.repaired.saturating_add(1);
                self.unrepaired.remove(id);
                let conflict =
                    self.backoff
                        .record_repair(&watched.container, drift.cause, now, &self.limits);
                scan.conflicts.extend(conflict);
                RepairOutcome::Repaired
            }
            Err(error) if error.is_vanished() => RepairOutcome::ContainerEnded,
            Err(error) => {
                counters.failed = counters.failed.saturating_add(1);
                RepairOutcome::Failed(error)
            }
        }
    }
}
