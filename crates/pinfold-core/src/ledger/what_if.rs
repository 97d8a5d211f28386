//! Copies of a ledger for what-if questions: without pods, under other rules.

use std::sync::Arc;

use super::Ledger;
use super::restart::SavedState;
use super::rules::{Rules, SettingsError};
use super::state::LedgerState;
use crate::cpu::{CpuConfigError, CpuManager, CpuReservation, StaticCpus, StaticSettings};
use crate::cpu_set::{CpuList, CpuSet};
use crate::demand::PodLevel;
use crate::device::DevicePool;
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
        }
    }

    /// A ledger whose totals of held resources are known but not its pods, as a NodeResourceTopology object reports
    /// them.
    pub fn from_counts(rules: Arc<Rules>, saved: SavedState, pool: DevicePool) -> Self {
        let state = LedgerState {
            cpus: saved.cpus,
            memory: saved.memory,
            devices: saved.devices,
            pool,
            ..LedgerState::default()
        };
        Self { rules, state }
    }

    /// The same pods and assignments under other rules for the same machine, which may differ in topology policy, scope
    /// and options. `None` if the assignments would be inconsistent there.
    #[must_use]
    pub fn with_rules(&self, rules: Arc<Rules>) -> Option<Self> {
        let mut changed = Self {
            rules,
            state: self.state.clone(),
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
    /// Whether pods with pod-level resources are managed as a whole.
    #[must_use]
    pub fn pod_level(&self) -> PodLevel {
        self.pod_level
    }

    /// Whether the CPU manager policy is `static`.
    pub fn has_exclusive_cpus(&self) -> bool {
        self.cpus.as_static().is_some()
    }

    /// Whether the option `prefer-closest-numa-nodes` is on.
    pub fn compares_distances(&self) -> bool {
        self.distances.is_some()
    }

    /// Whether the hints of the CPU manager depend on which CPUs share a core or a socket.
    pub fn depends_on_cores(&self) -> bool {
        let options = self.cpus.as_static().map(StaticCpus::options);
        options.is_some_and(|options| options.full_pcpus_only || options.align_by_socket)
    }

    /// Whether the CPU manager prefers CPUs that share an uncore cache.
    pub fn prefers_cache_alignment(&self) -> bool {
        let options = self.cpus.as_static().map(StaticCpus::options);
        options.is_some_and(|options| options.prefer_align_by_cache)
    }

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
                pod_level: self.pod_level,
                fidelity: self.settings.fidelity,
            };
            let cpus = StaticCpus::new(self.topology.clone(), settings);
            let cpus = cpus.map_err(CpuConfigError::from)?;
            self.cpus = CpuManager::Static(Box::new(cpus));
        }
        Ok(self)
    }

    /// Whether the option `full-pcpus-only` is on.
    pub fn full_cores_only(&self) -> bool {
        self.cpus
            .as_static()
            .is_some_and(|cpus| cpus.options().full_pcpus_only)
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
