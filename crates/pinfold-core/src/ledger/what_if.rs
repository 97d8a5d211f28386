//! Copies of a ledger for what-if questions: without pods, under other rules.

use std::sync::Arc;

use super::rules::{Rules, SettingsError};
use super::state::LedgerState;
use super::{LastPods, Ledger};
use crate::cpu::{CpuConfigError, CpuManager, CpuReservation, StaticCpus, StaticSettings};
use crate::cpu_set::{CpuList, CpuSet};
use crate::settings::Settings;

impl Ledger {
    /// The same node without pods; its devices stay.
    #[must_use]
    pub fn without_pods(&self) -> Self {
        let mut state = LedgerState::empty(&self.rules);
        state.pool = self.state.pool.clone();
        Self {
            rules: self.rules.clone(),
            state,
            last: LastPods::default(),
        }
    }

    /// The same pods and assignments under other rules for the same machine, which may differ in topology policy, scope
    /// and options. `None` if the assignments would be inconsistent there.
    #[must_use]
    pub fn with_rules(&self, rules: Arc<Rules>) -> Option<Self> {
        let mut changed = Self {
            rules,
            state: self.state.clone(),
            last: self.last.clone(),
        };
        if let Some(cpus) = changed.rules.cpus.as_static() {
            // Strictly reserved CPUs are not part of the shared pool, others are.
            let reserved = cpus.reserved();
            let shared = match cpus.options().strict_reservation {
                true => self.state.cpus.shared() - reserved,
                false => self.state.cpus.shared() | reserved,
            };
            if let Some(edit) = self.state.cpus.set_shared(shared) {
                changed.state.cpus.apply(&edit).ok()?;
            }
        }
        let known = self.audit();
        let sound = changed
            .audit()
            .iter()
            .all(|finding| known.contains(finding));
        sound.then_some(changed)
    }
}

impl Rules {
    /// The same rules with exactly these CPUs reserved, possibly none.
    pub fn with_reserved(mut self, reserved: &CpuSet) -> Result<Self, SettingsError> {
        if let Some(cpus) = self.cpus.as_static() {
            let settings = StaticSettings {
                options: cpus.options(),
                reservation: CpuReservation {
                    count: reserved.len(),
                    cpus: CpuList::from(reserved),
                },
                topology_policy: self.settings.topology_policy,
                pod_level: self.pod_level(),
                fidelity: self.settings.fidelity,
            };
            let cpus = StaticCpus::new(self.topology.clone(), settings);
            let cpus = cpus.map_err(CpuConfigError::from)?;
            self.cpus = CpuManager::Static(Box::new(cpus));
        }
        Ok(self)
    }

    /// `settings` with the same CPUs reserved as here, because which CPUs the policy would choose depends on its
    /// options.
    pub(crate) fn keep_reserved_cpus(&self, mut settings: Settings) -> Settings {
        if let Some(cpus) = self.cpus.as_static() {
            settings.reserved_cpus = Some(CpuList::from(cpus.reserved()));
        }
        settings
    }
}
