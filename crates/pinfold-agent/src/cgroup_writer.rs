//! [`CgroupWriter`]: writes an [`Allowance`] to a cgroup, through systemd where the cgroup is a unit's.
//!
//! systemd writes the properties of its units to their cgroups again when it is reloaded and when any property of the unit
//! changes, so that a value it does not know is lost. It therefore gets every value first. It applies values after its
//! answer, so they are also written directly, and checked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinfold_cgroup::{
    CgroupChange, CgroupError, CgroupSettings, CgroupVersion, CpuTimeLimit, GroupPath, Hierarchy,
};
use pinfold_core::cpu_set::CpuSet;

use crate::allowance::{Allowance, Quota};
use crate::systemd::{SystemdError, UnitManager, UnitProperties};

/// Writes allowances to cgroups.
#[derive(Debug)]
pub struct CgroupWriter {
    hierarchy: Hierarchy,
    /// `None` if all cgroups are written directly.
    systemd: Option<Arc<dyn UnitManager>>,
    last_answer: Mutex<SystemdAnswer>,
}

/// systemd's answer to the last properties.
#[derive(Debug, Default)]
struct SystemdAnswer {
    /// Why systemd did not take them; `None` if it did.
    error: Option<String>,
    /// No call before this time: the bus did not answer.
    paused_until: Option<Instant>,
}

/// How long systemd is not called after the bus did not answer. Each call waits for its timeout, and the allowances of all
/// other containers wait for it.
const PAUSE: Duration = Duration::from_secs(10);

impl CgroupWriter {
    /// Writes to the cgroups of `hierarchy`. Properties of units are set in `systemd`.
    #[must_use]
    pub fn new(hierarchy: Hierarchy, systemd: Option<Arc<dyn UnitManager>>) -> Self {
        Self {
            hierarchy,
            systemd,
            last_answer: Mutex::default(),
        }
    }

    /// The cgroup file systems.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Why systemd did not take the last properties of a unit; `None` if it did.
    #[must_use]
    pub fn systemd_error(&self) -> Option<String> {
        self.last_answer().error.clone()
    }

    fn last_answer(&self) -> MutexGuard<'_, SystemdAnswer> {
        let last = self.last_answer.lock();
        last.unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the allowance to `group`, and checks the effective values afterwards. [`Quota::Unlimited`] also removes the
    /// quota of the pod's cgroup.
    ///
    /// Offline CPUs are left out of the check. cgroup v2 accepts them and uses them as soon as they are online again; v1
    /// rejects them, so they are not written there.
    ///
    /// # Errors
    /// If the kernel rejects a value or applies a different one; [`CgroupError::Vanished`] if the container terminated.
    pub fn enforce(
        &self,
        group: &GroupPath,
        allowance: &Allowance,
        online: &CpuSet,
        migrate_memory: Option<bool>,
    ) -> Result<CgroupChange, CgroupError> {
        let usable = &allowance.cpus & online;
        let cpus = match self.hierarchy.cpuset.version {
            CgroupVersion::V1 => &usable,
            CgroupVersion::V2 => &allowance.cpus,
        };
        let limit = match allowance.quota {
            Quota::AsSpecified => None,
            Quota::Unlimited => Some(CpuTimeLimit::UNLIMITED),
            Quota::Limited { quota, period } => Some(CpuTimeLimit {
                quota: Some(quota),
                period,
            }),
        };
        let some = |cpus: &CpuSet| (!cpus.is_empty()).then(|| cpus.clone());
        let mut wanted = CgroupSettings {
            cpus: some(cpus),
            mems: (!allowance.mems.is_empty()).then_some(allowance.mems),
            cpu_time: limit,
            migrate_memory,
        };
        self.widen_slices(group, &wanted)?;
        self.set_unit_properties(group, &wanted);
        let written = self.hierarchy.group(group)?.write(&wanted)?;
        self.lift_pod_quota(group, allowance)?;
        wanted.cpus = some(&usable);
        written.verify_applied(&wanted)?;
        Ok(written)
    }

    /// Gives an external cgroup the CPUs and memory nodes of its parent, after the pod whose resources it had was released:
    /// another pod may get them.
    ///
    /// # Errors
    /// If the kernel rejects them; [`CgroupError::Vanished`] if the group no longer exists.
    pub fn release(&self, group: &GroupPath) -> Result<(), CgroupError> {
        let Some(parent) = group.parent() else {
            return Ok(());
        };
        let parent = self.hierarchy.group(&parent)?;
        let (cpus, mems) = parent.effective_sets()?;
        let wanted = CgroupSettings {
            cpus: Some(cpus),
            mems: Some(mems),
            ..CgroupSettings::default()
        };
        self.set_unit_properties(group, &wanted);
        self.hierarchy.group(group)?.write(&wanted).map(drop)
    }

    /// Removes the CPU quota of the pod's cgroup if the container's allowance has none: it would throttle the container all
    /// the same. The kubelet does so too for pods with exclusive CPUs.
    ///
    /// # Errors
    /// If the kernel rejects it; [`CgroupError::Vanished`] if the pod terminated.
    pub fn lift_pod_quota(
        &self,
        group: &GroupPath,
        allowance: &Allowance,
    ) -> Result<(), CgroupError> {
        let Some(pod) = group
            .pod_group()
            .filter(|_| allowance.quota == Quota::Unlimited)
        else {
            return Ok(());
        };
        let wanted = CgroupSettings {
            cpu_time: Some(CpuTimeLimit::UNLIMITED),
            ..CgroupSettings::default()
        };
        self.set_unit_properties(&pod, &wanted);
        self.hierarchy.group(&pod)?.write(&wanted).map(drop)
    }

    /// Widens slices of the kubelet that allow fewer CPUs than a group below them needs.
    fn widen_slices(&self, group: &GroupPath, wanted: &CgroupSettings) -> Result<(), CgroupError> {
        let Some(cpus) = wanted.cpus.as_ref().filter(|_| self.systemd.is_some()) else {
            return Ok(());
        };
        let narrow = self.hierarchy.group(group)?.narrow_ancestors(cpus)?;
        for ancestor in narrow.into_iter().filter(|ancestor| ancestor.widenable) {
            let wider = CgroupSettings {
                cpus: Some(&ancestor.allows | cpus),
                ..CgroupSettings::default()
            };
            self.set_unit_properties(&ancestor.path, &wider);
        }
        Ok(())
    }

    /// Sets the properties of the unit whose cgroup `group` is; nothing if it is no unit's.
    fn set_unit_properties(&self, group: &GroupPath, wanted: &CgroupSettings) {
        let (Some(systemd), Some(unit)) = (&self.systemd, group.systemd_unit()) else {
            return;
        };
        // On cgroup v1 systemd does not manage the cpuset controller.
        let has_cpusets = self.hierarchy.cpuset.version == CgroupVersion::V2;
        let properties = UnitProperties {
            allowed_cpus: wanted.cpus.clone().filter(|_| has_cpusets),
            allowed_memory_nodes: wanted.mems.filter(|_| has_cpusets),
            cpu_quota: wanted.cpu_time,
        };
        if properties == UnitProperties::default() {
            return;
        }
        let paused_until = self.last_answer().paused_until;
        if paused_until.is_some_and(|end| Instant::now() < end) {
            return;
        }
        let mut answer = SystemdAnswer::default();
        match systemd.set_properties(unit, &properties) {
            Ok(()) | Err(SystemdError::NoSuchUnit(_)) => {}
            Err(error) => {
                if matches!(error, SystemdError::Bus { .. }) {
                    answer.paused_until = Instant::now().checked_add(PAUSE);
                }
                answer.error = Some(format!(
                    "control groups are written directly, which systemd may undo: {error}"
                ));
            }
        }
        *self.last_answer() = answer;
    }
}

#[cfg(test)]
mod tests;
