//! The kubelet's configuration file (`KubeletConfiguration`, `kubelet.config.k8s.io/v1beta1`), as far as it affects
//! placement.
//!
//! Other fields are accepted unchecked. What the kubelet's validation rejects is rejected with its message. Obsolete
//! and misspelt names of the first designs are accepted with a warning, or rejected in exact mode
//! ([`Fidelity::Exact`]).

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_core::cpu_set::CpuList;
use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::memory::MemoryReservation;
use pinfold_core::pod::ResourceList;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, TopologyScope};

use crate::admission::PodLimits;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::go::parse;
use crate::go::quote::quoted;
use crate::manifest::field::FieldRef;
use crate::manifest::{self, Document};
use crate::suggest;

mod options;
mod policies;
mod reserved;
mod settings;

pub use reserved::EvictionThreshold;

/// The kubelet's settings of CPUs, memory and their alignment.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletSettings {
    /// `topologyManagerPolicy`.
    pub topology_policy: TopologyPolicy,
    /// `topologyManagerScope`.
    pub topology_scope: TopologyScope,
    /// `topologyManagerPolicyOptions`, names in lower case.
    pub topology_options: BTreeMap<String, String>,
    /// `cpuManagerPolicy`.
    pub cpu_policy: CpuManagerPolicy,
    /// `cpuManagerPolicyOptions`, names in lower case.
    pub cpu_options: BTreeMap<String, String>,
    /// `cpuManagerReconcilePeriod`.
    pub cpu_reconcile_period: Duration,
    /// `memoryManagerPolicy`.
    pub memory_policy: MemoryManagerPolicy,
    /// `reservedMemory`, in order.
    pub reserved_memory: Vec<MemoryReservation>,
    /// `reservedSystemCPUs`; empty if not set.
    pub reserved_system_cpus: CpuList,
    /// `kubeReserved`.
    pub kube_reserved: ResourceList,
    /// `systemReserved`.
    pub system_reserved: ResourceList,
    /// `memory.available` of `evictionHard`; `None` if it is disabled.
    pub eviction_memory: Option<EvictionThreshold>,
    /// `maxPods` and `podsPerCore`.
    pub pod_limits: PodLimits,
    /// `featureGates` as written, including unknown ones.
    pub feature_gates: BTreeMap<String, bool>,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            topology_policy: TopologyPolicy::default(),
            topology_scope: TopologyScope::default(),
            topology_options: BTreeMap::new(),
            cpu_policy: CpuManagerPolicy::default(),
            cpu_options: BTreeMap::new(),
            cpu_reconcile_period: DEFAULT_RECONCILE_PERIOD,
            memory_policy: MemoryManagerPolicy::default(),
            reserved_memory: Vec::new(),
            reserved_system_cpus: CpuList::default(),
            kube_reserved: ResourceList::new(),
            system_reserved: ResourceList::new(),
            eviction_memory: Some(EvictionThreshold::default()),
            pod_limits: PodLimits::default(),
            feature_gates: BTreeMap::new(),
        }
    }
}

const DEFAULT_RECONCILE_PERIOD: Duration = Duration::from_secs(10);

const KIND: &str = "KubeletConfiguration";
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// The fields that are read.
const FIELDS: &[&str] = &[
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "cpuManagerReconcilePeriod",
    "memoryManagerPolicy",
    "reservedMemory",
    "reservedSystemCPUs",
    "kubeReserved",
    "systemReserved",
    "kubeReservedCgroup",
    "systemReservedCgroup",
    "evictionHard",
    "mergeDefaultEvictionSettings",
    "maxPods",
    "podsPerCore",
    "featureGates",
];

/// The former gate of the topology manager; always on since Kubernetes v1.27.
const TOPOLOGY_MANAGER_GATE: &str = "TopologyManager";

impl KubeletSettings {
    /// Reads a file with one kubelet configuration.
    ///
    /// # Errors
    /// With every error in the file.
    pub fn read(
        file: &str,
        bytes: &[u8],
        fidelity: Fidelity,
    ) -> Result<WithWarnings<Self>, Diagnostics> {
        let documents = manifest::read(file, bytes)?;
        match documents.as_slice() {
            [document] => Self::from_document(document, fidelity),
            others => {
                let mut report = DiagnosticReport::new(file);
                let problem = DiagnosticKind::Unexpected {
                    expected: format!("one {KIND}"),
                    found: format!("{} objects", others.len()),
                };
                let at = others.get(1).and_then(Document::at);
                report.error(at, "", problem, None);
                report.finish(Self::default())
            }
        }
    }

    /// Reads a kubelet configuration from a file with other objects.
    ///
    /// # Errors
    /// With every error in the object.
    pub fn from_document(
        document: &Document,
        fidelity: Fidelity,
    ) -> Result<WithWarnings<Self>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        let object = document.root();
        let header = [
            ("kind", document.kind(), KIND),
            ("apiVersion", document.api_version(), API_VERSION),
        ];
        for (field, found, expected) in header {
            if found != expected
                && let Some(field) = object.get(field)
            {
                field.unexpected(expected, &mut report);
                return report.finish(Self::default());
            }
        }
        let reader = ConfigReader {
            object,
            reads_old_spellings: fidelity == Fidelity::Sound,
        };
        let settings = reader.settings(&mut report);
        report.finish(settings)
    }

    /// Whether pod-level resources are managed (gate `PodLevelResourceManagers`, off by default).
    #[must_use]
    pub fn pod_level(&self) -> PodLevel {
        match self.feature_gates.get("PodLevelResourceManagers") {
            Some(true) => PodLevel::Managed,
            _ => PodLevel::Ignored,
        }
    }

    /// Whether a gate is on; `default` if the file does not set it.
    #[must_use]
    pub fn gate(&self, name: &str, default: bool) -> bool {
        self.feature_gates.get(name).copied().unwrap_or(default)
    }
}

/// The state of reading one kubelet configuration.
struct ConfigReader<'n> {
    object: FieldRef<'n>,
    reads_old_spellings: bool,
}

impl ConfigReader<'_> {
    fn settings(&self, report: &mut DiagnosticReport) -> KubeletSettings {
        self.warn_misspelt(report);
        let feature_gates = self.feature_gates(report);
        let mut topology_policy = self.topology_policy(report);
        if let Some(gate) = self.old_gate(&feature_gates, report)
            && !gate
        {
            topology_policy = TopologyPolicy::None;
        }
        KubeletSettings {
            topology_policy,
            topology_scope: self.topology_scope(report),
            topology_options: self.topology_options(report),
            cpu_policy: self.cpu_policy(report),
            cpu_options: self.cpu_options(report),
            cpu_reconcile_period: self.reconcile_period(report),
            memory_policy: self.memory_policy(report),
            reserved_memory: self.reserved_memory(report),
            reserved_system_cpus: self.reserved_system_cpus(report),
            kube_reserved: self.reserved("kubeReserved", report),
            system_reserved: self.reserved("systemReserved", report),
            eviction_memory: self.eviction_memory(report),
            pod_limits: self.pod_limits(report),
            feature_gates,
        }
    }

    /// Warns about unknown fields that are similar to one that is read.
    fn warn_misspelt(&self, report: &mut DiagnosticReport) {
        for (key, field) in self.object.members() {
            if FIELDS.contains(&key) {
                continue;
            }
            if let Some(meant) = suggest::nearest(key, FIELDS.iter().copied()) {
                let hint = Some(format!("did you mean {meant:?}?"));
                field.warn(DiagnosticKind::UnknownField(key.to_owned()), hint, report);
            }
        }
    }

    fn feature_gates(&self, report: &mut DiagnosticReport) -> BTreeMap<String, bool> {
        let map = self
            .object
            .get_map("featureGates", "a mapping of gates to booleans", report);
        let mut gates = BTreeMap::new();
        for (name, field) in map.iter().flat_map(FieldRef::members) {
            if let Some(on) = field.boolean("true or false", report) {
                gates.insert(name.to_owned(), on);
            }
        }
        gates
    }

    /// The gate `TopologyManager`, which current kubelets no longer have.
    fn old_gate(
        &self,
        gates: &BTreeMap<String, bool>,
        report: &mut DiagnosticReport,
    ) -> Option<bool> {
        let on = *gates.get(TOPOLOGY_MANAGER_GATE)?;
        let gates = self.object.get("featureGates")?;
        let field = gates.get(TOPOLOGY_MANAGER_GATE)?;
        if !self.reads_old_spellings {
            let message = format!("unrecognized feature gate: {TOPOLOGY_MANAGER_GATE}");
            field.rejected(message, report);
            return None;
        }
        let problem = match on {
            true => DiagnosticKind::NoEffect(format!("the gate {TOPOLOGY_MANAGER_GATE}")),
            false => DiagnosticKind::OldSpelling {
                found: format!("the gate {TOPOLOGY_MANAGER_GATE} off"),
                read_as: "topologyManagerPolicy: none".to_owned(),
            },
        };
        let hint = "today's kubelets reject this gate; remove it".to_owned();
        field.warn(problem, Some(hint), report);
        Some(on)
    }

    fn reconcile_period(&self, report: &mut DiagnosticReport) -> Duration {
        let Some(field) = self.object.get("cpuManagerReconcilePeriod") else {
            return DEFAULT_RECONCILE_PERIOD;
        };
        let what = "a duration such as 10s";
        let period = field.text(what, report).map(|text| {
            let period = parse::duration(text);
            if period.is_none() {
                field.unexpected(what, report);
            }
            period
        });
        match period.flatten() {
            None | Some(Duration::ZERO) => DEFAULT_RECONCILE_PERIOD,
            Some(period) => period,
        }
    }

    fn reserved_system_cpus(&self, report: &mut DiagnosticReport) -> CpuList {
        let Some(field) = self.object.get("reservedSystemCPUs") else {
            return CpuList::default();
        };
        let Some(text) = field.text("a CPU list such as \"0-1,8\"", report) else {
            return CpuList::default();
        };
        let is_named = |key: &str| self.object.get(key).is_some_and(|field| !field.is_text(""));
        if !text.is_empty() && (is_named("systemReservedCgroup") || is_named("kubeReservedCgroup"))
        {
            let message = "invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with \
                         systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup \
                         (--kube-reserved-cgroup)";
            field.rejected(message, report);
        }
        CpuList::parse(text).unwrap_or_else(|error| {
            let message = format!(
                "invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) {text}, error: {error}"
            );
            field.rejected(message, report);
            CpuList::default()
        })
    }

    /// The text under `key`; `None` if it is empty.
    fn word(
        &self,
        key: &str,
        what: &str,
        report: &mut DiagnosticReport,
    ) -> Option<(&str, FieldRef<'_>)> {
        let field = self.object.get(key)?;
        let word = field.text(what, report)?;
        (!word.is_empty()).then_some((word, field))
    }

    /// Adds an error with the kubelet's message about a value, and a suggestion.
    fn reject_word(
        field: &FieldRef<'_>,
        word: &str,
        message: String,
        known: &[&str],
        report: &mut DiagnosticReport,
    ) {
        let hint = Some(suggest::hint(word, known));
        report.error(
            field.at(),
            field.path(),
            DiagnosticKind::Rejected(message),
            hint,
        );
    }

    /// Warns about an obsolete spelling.
    fn warn_old(field: &FieldRef<'_>, word: &str, today: &str, report: &mut DiagnosticReport) {
        let problem = DiagnosticKind::OldSpelling {
            found: quoted(word),
            read_as: quoted(today),
        };
        let hint = format!("write {today:?}; kubelets reject {word:?}");
        field.warn(problem, Some(hint), report);
    }
}

#[cfg(test)]
mod tests;
