//! The kubelet's part of the tree: `kubepods`, a group per QoS class, a group per pod.

use pinfold_core::name::PodUid;
use pinfold_core::qos::QosClass;

use super::{GroupPath, PathError, SLICE};

/// The cgroup driver of a node, which determines the names of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// The kubelet and the runtime create groups themselves.
    Cgroupfs,
    /// systemd creates them.
    Systemd,
}

/// The levels between the kubelet's root group and a pod's group. Guaranteed pods have no level for their QoS class.
fn levels(qos: QosClass) -> &'static [&'static str] {
    match qos {
        QosClass::Guaranteed => &["kubepods"],
        QosClass::Burstable => &["kubepods", "burstable"],
        QosClass::BestEffort => &["kubepods", "besteffort"],
    }
}

impl GroupPath {
    /// The group of a pod below the kubelet's root group, which usually is the root of the hierarchy.
    ///
    /// # Errors
    /// If the uid, or with systemd the root's name, cannot be part of a group's name.
    pub fn of_pod(
        driver: CgroupDriver,
        root: &GroupPath,
        qos: QosClass,
        pod: &PodUid,
    ) -> Result<Self, PathError> {
        let pod = format!("pod{pod}");
        if pod.contains('/') {
            return Err(PathError::Character(pod));
        }
        let names = levels(qos).iter().copied().chain([pod.as_str()]);
        match driver {
            CgroupDriver::Cgroupfs => {
                let path: Vec<&str> = names.collect();
                GroupPath::parse(&format!("{root}/{}", path.join("/")))
            }
            CgroupDriver::Systemd => {
                let root = root.name().strip_suffix(SLICE).unwrap_or(root.name());
                let root = (!root.is_empty()).then(|| root.to_owned());
                let names = names.map(|name| name.replace('-', "_"));
                let slice: Vec<String> = root.into_iter().chain(names).collect();
                GroupPath::slice(&format!("{}{SLICE}", slice.join("-")))
            }
        }
    }

    /// The pod's group that contains this group, or is it; `None` if it belongs to no pod.
    #[must_use]
    pub fn pod_group(&self) -> Option<GroupPath> {
        let kubepods = self.kubepods()?;
        // From the root down: a container's group may be named like a pod's.
        let own = std::iter::once(self.clone());
        self.ancestors()
            .into_iter()
            .chain(own)
            .skip_while(|group| *group != kubepods)
            .skip(1)
            .find(|group| uid(group.name()).is_some())
    }

    /// The uid of the pod that it belongs to.
    #[must_use]
    pub fn pod(&self) -> Option<PodUid> {
        uid(self.pod_group()?.name())
    }

    /// The group `kubepods` that contains this group, or is it. Groups below it belong to the kubelet; those above do
    /// not.
    #[must_use]
    pub fn kubepods(&self) -> Option<GroupPath> {
        let is_kubepods = |group: &GroupPath| {
            let name = group.name();
            let slice = name.strip_suffix(SLICE);
            name == "kubepods"
                || slice.is_some_and(|stem| stem == "kubepods" || stem.ends_with("-kubepods"))
        };
        let mut groups = self.ancestors();
        groups.push(self.clone());
        groups.into_iter().find(is_kubepods)
    }
}

/// The uid in the name of a pod's group.
fn uid(name: &str) -> Option<PodUid> {
    let uid = match name.strip_suffix(SLICE) {
        Some(slice) => slice
            .rsplit('-')
            .next()?
            .strip_prefix("pod")?
            .replace('_', "-"),
        None => name.strip_prefix("pod")?.to_owned(),
    };
    (!uid.is_empty()).then(|| uid.into())
}
