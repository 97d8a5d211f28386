//! [`fingerprint`]: the fingerprint of a set of pods, as the package `podfingerprint` of the NodeResourceTopology API
//! computes it (version v001).
//!
//! A node's report says which pods it accounts for by their fingerprint. scheduler-plugins computes the same one from
//! the pods that it knows, and drops its pessimistic reservations of a node only when both are equal. A report without
//! a fingerprint is never accepted: the node stays closed.
//!
//! ```text
//! pfp0 v001 + 16 hex digits: XXH64(sorted 64-bit hashes of the pods, little endian)
//! hash of a pod = XXH64(name, seed = XXH64(namespace))
//! ```

use pinfold_cluster::node_topology::resource_kinds::{is_hugepages, is_native};
use pinfold_core::pod::Pod;
use pinfold_core::qos::QosClass;

use crate::node_resource_topology::NodeResourceTopology;
use crate::pod::StatusPhase;

mod xxh64;

use xxh64::xxh64;

/// The attribute of a report with the fingerprint.
pub const ATTRIBUTE: &str = "nodeTopologyPodsFingerprint";
/// The attribute with the [`FingerprintMethod`]. Without it readers assume [`FingerprintMethod::All`].
pub const METHOD_ATTRIBUTE: &str = "nodeTopologyPodsFingerprintMethod";
/// The annotation with the fingerprint for readers of v1alpha1, which has no attributes. Its method is always
/// [`FingerprintMethod::All`].
pub const ANNOTATION: &str = "topology.node.k8s.io/fingerprint";

/// Prefix and version of every fingerprint.
const PREFIX: &str = "pfp0v001";

/// Which pods of a node a fingerprint covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FingerprintMethod {
    /// All pods that have started, finished ones included until they are deleted.
    All,
    /// Of those, the pods that request resources for themselves alone: whole CPUs, memory or hugepages of a Guaranteed
    /// pod, or devices. Other pods change no amount of a report, so their starts need no new one.
    #[default]
    WithExclusiveResources,
    /// All pods that run. For schedulers with `informerMode: Shared`, which know no others.
    ExcludeTerminal,
}

impl FingerprintMethod {
    /// Every method.
    pub const ALL: [Self; 3] = [
        Self::All,
        Self::WithExclusiveResources,
        Self::ExcludeTerminal,
    ];

    /// The value of [`METHOD_ATTRIBUTE`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::WithExclusiveResources => "with-exclusive-resources",
            Self::ExcludeTerminal => "exclude-terminal",
        }
    }

    /// Whether the fingerprint covers a pod. A pending pod is never covered.
    #[must_use]
    pub fn covers(self, pod: &Pod, phase: StatusPhase) -> bool {
        match self {
            _ if phase == StatusPhase::Pending => false,
            Self::All => true,
            Self::WithExclusiveResources => has_exclusive_resources(pod),
            Self::ExcludeTerminal => phase != StatusPhase::Terminated,
        }
    }
}

/// The fingerprint in a report and the pods that it covers; `None` without one, or if its method is not known.
#[must_use]
pub fn reported(report: &NodeResourceTopology) -> Option<(FingerprintMethod, String)> {
    let attribute = |name: &str| {
        let mut own = report.attributes.iter().filter(|own| own.name == name);
        own.next().map(|own| own.value.as_str())
    };
    let Some(value) = attribute(ATTRIBUTE) else {
        let value = report.meta.annotations.get(ANNOTATION)?;
        return Some((FingerprintMethod::All, value.clone()));
    };
    let method = match attribute(METHOD_ATTRIBUTE) {
        None => FingerprintMethod::All,
        Some(name) => FingerprintMethod::ALL
            .into_iter()
            .find(|own| own.name() == name)?,
    };
    Some((method, value.to_owned()))
}

/// The fingerprint of pods, each given by namespace and name, in any order.
#[must_use]
pub fn fingerprint<'p>(pods: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let hash = |(namespace, name): (&str, &str)| {
        let seed = xxh64(namespace.as_bytes(), 0);
        xxh64(name.as_bytes(), seed)
    };
    let mut hashes: Vec<u64> = pods.into_iter().map(hash).collect();
    hashes.sort_unstable();
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    format!("{PREFIX}{:016x}", xxh64(&bytes, 0))
}

/// Kinds of resources that a pod may hold for itself alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExclusiveKinds {
    /// Whole CPUs of a Guaranteed pod.
    pub cpus: bool,
    /// Memory and hugepages of a Guaranteed pod.
    pub memory: bool,
    /// Devices.
    pub devices: bool,
}

impl ExclusiveKinds {
    /// The kinds in both.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self {
            cpus: self.cpus && other.cpus,
            memory: self.memory && other.memory,
            devices: self.devices && other.devices,
        }
    }
}

/// The kinds of resources that containers which keep running request for themselves alone. Mirrors
/// `AreExclusiveForPod`.
#[must_use]
pub fn exclusive_kinds(pod: &Pod) -> ExclusiveKinds {
    let guaranteed = QosClass::of(pod) == QosClass::Guaranteed;
    let mut kinds = ExclusiveKinds::default();
    let lasting = pod
        .all_containers()
        .filter(|container| !pod.is_finishing_init(&container.name));
    for (name, amount) in lasting.flat_map(|container| &container.requests) {
        let name = name.as_str();
        match name {
            _ if !is_native(name) => kinds.devices = true,
            _ if !guaranteed || !amount.is_positive() => {}
            "cpu" => kinds.cpus |= amount.milli_value() % 1000 == 0,
            _ => kinds.memory |= name == "memory" || is_hugepages(name),
        }
    }
    kinds
}

/// Whether a pod requests a resource for itself alone.
#[must_use]
pub fn has_exclusive_resources(pod: &Pod) -> bool {
    exclusive_kinds(pod) != ExclusiveKinds::default()
}

#[cfg(test)]
mod tests;
