//! [`DriftMonitor`]: compares the cgroups of all containers, repairs drift, and counts it by cause.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_cgroup::CgroupError;
use pinfold_core::name::ContainerId;

use super::compare::compare;
use super::observe::observe;
use super::repair_backoff::{RepairBackoff, RepairConflict, RepairLimits};
use super::{ContainerRef, Drift, DriftCause, Evidence, WatchedContainer};
use crate::cgroup_writer::CgroupWriter;

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
    /// A CPU is offline, or an ancestor that is not the kubelet's allows fewer CPUs: no write to the cgroup can change
    /// that.
    NotRepairable,
    /// Writing to the cgroup failed.
    Failed(CgroupError),
    /// The container terminated during the repair.
    ContainerEnded,
}

/// The container runtime, which owns the cgroups of its containers.
pub trait RuntimeUpdates {
    /// Whether the container's allowance is unchanged since the scan began, and the runtime had time to apply it.
    fn is_settled(&self, watched: &WatchedContainer) -> bool;

    /// Sends the container's allowance to the runtime. Returns whether the runtime applied it.
    fn update(&self, watched: &WatchedContainer) -> bool;
}

/// No container runtime: all cgroups are written by the agent.
#[derive(Clone, Copy, Debug)]
pub struct NoRuntime;

impl RuntimeUpdates for NoRuntime {
    fn is_settled(&self, _: &WatchedContainer) -> bool {
        true
    }

    fn update(&self, _: &WatchedContainer) -> bool {
        false
    }
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

    /// Compares all running containers with their allowances, and repairs drift of those that are settled: through the
    /// runtime first, and with `writer` if that does not help. State of containers that are not in `containers` is dropped.
    /// `now` must not go backwards.
    pub fn scan(
        &mut self,
        writer: &CgroupWriter,
        runtime: &dyn RuntimeUpdates,
        containers: &[WatchedContainer],
        evidence: &Evidence,
        now: Instant,
    ) -> DriftScan {
        let here: BTreeSet<&ContainerId> = containers.iter().map(|one| &one.container.id).collect();
        self.backoff.retain(|container| here.contains(container));
        self.unrepaired
            .retain(|container, _| here.contains(container));
        let mut scan = DriftScan::default();
        for watched in containers {
            let container = &watched.container;
            match observe(writer.hierarchy(), watched) {
                Ok(found) => match compare(watched, &found, evidence) {
                    Some(_) if !runtime.is_settled(watched) => {}
                    Some(drift) => {
                        let migrate = self.migrate_memory;
                        let apply = || apply(writer, runtime, watched, evidence, migrate);
                        let outcome = self.repair(watched, &drift, &apply, now, &mut scan);
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
        watched: &WatchedContainer,
        drift: &Drift,
        apply: &dyn Fn() -> Result<(), CgroupError>,
        now: Instant,
        scan: &mut DriftScan,
    ) -> RepairOutcome {
        let id = &watched.container.id;
        let counters = self.counters.entry(drift.cause).or_default();
        if self.unrepaired.get(id) != Some(drift) {
            counters.drifted = counters.drifted.saturating_add(1);
            self.unrepaired.insert(id.clone(), drift.clone());
        }
        if !is_repairable(drift) {
            return RepairOutcome::NotRepairable;
        }
        if let Some(until) = self.backoff.paused_until(id, now) {
            counters.backed_off = counters.backed_off.saturating_add(1);
            return RepairOutcome::BackedOff(until);
        }
        match apply() {
            Ok(()) => {
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

/// Whether a write to the container's cgroup, or to one of the kubelet's above it, can end the drift.
fn is_repairable(drift: &Drift) -> bool {
    match drift.cause {
        DriftCause::CpuOffline => false,
        DriftCause::NarrowAncestor => {
            let ancestor = drift.found.narrow_ancestor.as_ref();
            ancestor.is_none_or(|ancestor| ancestor.widenable)
        }
        _ => true,
    }
}

/// Has the allowance applied by the owner of the cgroup: the runtime, else systemd, else the agent itself.
fn apply(
    writer: &CgroupWriter,
    runtime: &dyn RuntimeUpdates,
    watched: &WatchedContainer,
    evidence: &Evidence,
    migrate_memory: Option<bool>,
) -> Result<(), CgroupError> {
    let (group, expected) = (&watched.group, &watched.expected);
    if runtime.update(watched) {
        // The runtime does not know the pod's cgroup.
        writer.lift_pod_quota(group, expected)?;
        let found = observe(writer.hierarchy(), watched)?;
        if compare(watched, &found, evidence).is_none() {
            return Ok(());
        }
    }
    let written = writer.enforce(group, expected, &evidence.online, migrate_memory);
    written.map(drop)
}
