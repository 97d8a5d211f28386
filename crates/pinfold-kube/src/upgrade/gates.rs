//! The feature gates of resource management: in which version each is known, its default, and whether it is locked.
//!
//! Mirrors `kube_features.go` of every known version. Other gates are not listed: nothing is said about them.

use std::collections::BTreeMap;

use pinfold_core::fidelity::KubeletVersion;

/// What a gate is from one version on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Known and off by default.
    Off,
    /// Known and on by default.
    On,
    /// Known, on, and cannot be switched off.
    Locked,
    /// Not known any more; its feature is always on.
    Removed,
}

use Stage::{Locked, Off, On, Removed};

/// A feature gate.
#[derive(Debug)]
pub(super) struct Gate {
    /// Its name in `featureGates`.
    pub(super) name: &'static str,
    /// What it switches.
    pub(super) about: &'static str,
    /// The minor versions from which a stage holds, ascending. Before the first the gate is not known and its feature
    /// does not exist.
    stages: &'static [(u8, Stage)],
    /// The gate that must be on for this one, checked since 1.35.
    needs: Option<&'static str>,
}

/// A stage that the gate has in the oldest known version.
const ALWAYS: u8 = 0;

const fn gate(name: &'static str, about: &'static str, stages: &'static [(u8, Stage)]) -> Gate {
    Gate {
        name,
        about,
        stages,
        needs: None,
    }
}

const POD_LEVEL_RESOURCES: &str = "PodLevelResources";

#[rustfmt::skip]
static GATES: [Gate; 25] = [
    gate("AppArmor", "AppArmor profiles of containers", &[(ALWAYS, On), (31, Locked), (33, Removed)]),
    gate("CPUManager", "the CPU manager", &[(ALWAYS, Locked), (33, Removed)]),
    gate("CPUManagerPolicyAlphaOptions", "alpha options of the CPU manager", &[(ALWAYS, Off)]),
    gate("CPUManagerPolicyBetaOptions", "beta options of the CPU manager", &[(ALWAYS, On)]),
    gate("CPUManagerPolicyOptions", "options of the CPU manager", &[(ALWAYS, On), (33, Locked)]),
    gate("DisableCPUQuotaWithExclusiveCPUs", "no CPU quota for containers with exclusive CPUs", &[(33, On), (37, Locked)]),
    gate("DRAExtendedResource", "extended resources that resource claims serve", &[(34, Off), (36, On), (37, Locked)]),
    gate("DynamicResourceAllocation", "resource claims", &[(ALWAYS, Off), (34, On), (35, Locked)]),
    Gate {
        needs: Some(POD_LEVEL_RESOURCES),
        ..gate("InPlacePodLevelResourcesVerticalScaling", "resizes of pod-level resources", &[(35, Off), (36, On)])
    },
    gate("InPlacePodVerticalScaling", "resizes of running containers", &[(ALWAYS, Off), (33, On), (35, Locked)]),
    gate("InPlacePodVerticalScalingExclusiveCPUs", "resizes of exclusive CPUs", &[(32, Off)]),
    gate("InPlacePodVerticalScalingExclusiveMemory", "resizes of NUMA memory", &[(34, Off)]),
    gate("InPlacePodVerticalScalingInitContainers", "resizes of init containers", &[(36, On), (37, Locked)]),
    gate("MemoryManager", "the memory manager", &[(ALWAYS, On), (32, Locked), (36, Removed)]),
    gate("NodeDeclaredFeatures", "pods are rejected if they need a feature that the node does not declare", &[(35, Off), (36, On), (37, Locked)]),
    Gate {
        needs: Some(POD_LEVEL_RESOURCES),
        ..gate("PodLevelResourceManagers", "exclusive CPUs and NUMA memory for pods with pod-level resources", &[(36, Off)])
    },
    gate(POD_LEVEL_RESOURCES, "pod-level resources count; pods with them get no exclusive CPUs and no NUMA memory", &[(32, Off), (34, On)]),
    gate("PodLevelResourcesFixKubeletQOSClass", "the QoS class ignores pod-level resources without cpu, memory and hugepages", &[(37, On)]),
    gate("SidecarContainers", "sidecars", &[(ALWAYS, On), (33, Locked), (37, Removed)]),
    gate("SupplementalGroupsPolicy", "pods with supplementalGroupsPolicy Strict need a runtime that supports it", &[(31, Off), (33, On), (35, Locked)]),
    gate("TaintTolerationComparisonOperators", "tolerations that compare numbers", &[(35, Off)]),
    gate("TopologyManager", "the topology manager", &[(ALWAYS, Removed)]),
    gate("TopologyManagerPolicyAlphaOptions", "alpha options of the topology manager", &[(ALWAYS, Off)]),
    gate("TopologyManagerPolicyBetaOptions", "beta options of the topology manager", &[(ALWAYS, On)]),
    gate("TopologyManagerPolicyOptions", "options of the topology manager", &[(ALWAYS, On), (36, Locked)]),
];

/// Every listed gate, by name.
pub(super) fn all() -> &'static [Gate] {
    &GATES
}

/// The gate of this name, if it is listed.
pub(super) fn named(name: &str) -> Option<&'static Gate> {
    GATES.iter().find(|gate| gate.name == name)
}

/// Whether the feature of the gate `name` is on in `version`, with the gates that a configuration sets. A gate that is
/// not listed is off.
pub(super) fn is_on(
    name: &str,
    version: KubeletVersion,
    configured: &BTreeMap<String, bool>,
) -> bool {
    named(name).is_some_and(|gate| gate.is_on(version, configured))
}

/// Why a kubelet does not start with a gate of its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateRefusal {
    /// This version does not know it yet.
    Unknown,
    /// This version does not know it any more: its feature is always on.
    Removed,
    /// It is on and locked.
    Locked,
    /// It is on, and this gate that it needs is off.
    Depends(&'static str),
}

/// The first version that checks the dependencies of gates.
const CHECKS_DEPENDENCIES: KubeletVersion = KubeletVersion::minor(35);

impl Gate {
    fn stage(&self, version: KubeletVersion) -> Option<Stage> {
        let mut stages = self.stages.iter().rev();
        let stage = stages.find(|(since, _)| version >= KubeletVersion::minor(*since));
        stage.map(|(_, stage)| *stage)
    }

    /// Whether its feature is on without a configuration.
    pub(super) fn default(&self, version: KubeletVersion) -> bool {
        matches!(self.stage(version), Some(On | Locked | Removed))
    }

    /// Whether its feature is on.
    fn is_on(&self, version: KubeletVersion, configured: &BTreeMap<String, bool>) -> bool {
        match (self.stage(version), configured.get(self.name)) {
            (Some(Off | On), Some(on)) => *on,
            _ => self.default(version),
        }
    }

    /// Why a kubelet of this version does not start with this gate as the configuration sets it, or leaves it.
    pub(super) fn refusal(
        &self,
        version: KubeletVersion,
        configured: &BTreeMap<String, bool>,
    ) -> Option<GateRefusal> {
        let set = configured.get(self.name);
        match (self.stage(version), set) {
            (None, Some(_)) => return Some(GateRefusal::Unknown),
            (Some(Removed), Some(_)) => return Some(GateRefusal::Removed),
            (Some(Locked), Some(false)) => return Some(GateRefusal::Locked),
            _ => {}
        }
        let needs = self.needs?;
        let breaks = version >= CHECKS_DEPENDENCIES
            && self.is_on(version, configured)
            && !is_on(needs, version, configured);
        breaks.then_some(GateRefusal::Depends(needs))
    }
}

impl GateRefusal {
    /// What the kubelet says.
    pub(super) fn message(self, gate: &str) -> String {
        match self {
            Self::Unknown | Self::Removed => format!("unrecognized feature gate: {gate}"),
            Self::Locked => {
                format!("cannot set feature gate {gate} to false, feature is locked to true")
            }
            Self::Depends(needs) => {
                format!("{gate} is enabled, but depends on features that are disabled: [{needs}]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(rows: &[(&str, bool)]) -> BTreeMap<String, bool> {
        let rows = rows.iter();
        rows.map(|&(name, on)| (name.to_owned(), on)).collect()
    }

    fn refusal(name: &str, minor: u8, rows: &[(&str, bool)]) -> Option<GateRefusal> {
        let gate = named(name).expect("a listed gate");
        gate.refusal(KubeletVersion::minor(minor), &configured(rows))
    }

    #[test]
    fn a_gate_is_unknown_then_off_then_on_then_locked_then_removed() {
        let set = |on| [("DRAExtendedResource", on)];
        let of = |minor, on| refusal("DRAExtendedResource", minor, &set(on));
        assert_eq!(of(33, true), Some(GateRefusal::Unknown));
        assert_eq!(of(34, true), None);
        assert_eq!(of(36, false), None);
        assert_eq!(of(37, false), Some(GateRefusal::Locked));
        assert_eq!(of(37, true), None);
        let memory = |minor, on| refusal("MemoryManager", minor, &[("MemoryManager", on)]);
        assert_eq!(memory(31, false), None);
        assert_eq!(memory(35, true), None);
        assert_eq!(memory(36, true), Some(GateRefusal::Removed));
    }

    #[test]
    fn a_gate_needs_another_one_since_1_35_even_if_only_its_default_is_on() {
        let resize = "InPlacePodLevelResourcesVerticalScaling";
        let off = [("PodLevelResources", false)];
        assert_eq!(refusal(resize, 35, &off), None);
        let depends = GateRefusal::Depends("PodLevelResources");
        let message = depends.message(resize);
        assert_eq!(refusal(resize, 36, &off), Some(depends));
        assert_eq!(
            message,
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: \
             [PodLevelResources]"
        );
        let both = [("PodLevelResources", false), (resize, false)];
        assert_eq!(refusal(resize, 36, &both), None);
    }

    #[test]
    fn a_removed_gate_leaves_its_feature_on_and_a_later_one_is_off_before_it_exists() {
        let none = BTreeMap::new();
        let of = |name, minor| is_on(name, KubeletVersion::minor(minor), &none);
        assert!(of("CPUManager", 37) && of("MemoryManager", 29));
        assert!(!of("PodLevelResources", 31) && of("PodLevelResources", 34));
        let off = configured(&[("CPUManager", false)]);
        assert!(is_on("CPUManager", KubeletVersion::minor(36), &off));
    }

    #[test]
    fn the_gates_are_sorted_and_their_stages_ascend() {
        assert!(
            GATES
                .windows(2)
                .all(|pair| pair[0].name.to_lowercase() < pair[1].name.to_lowercase())
        );
        for gate in &GATES {
            let stages = gate.stages;
            assert!(
                stages.windows(2).all(|pair| pair[0].0 < pair[1].0),
                "{}",
                gate.name
            );
        }
    }
}
