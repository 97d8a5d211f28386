//! The kubelet's part of the tree: `kubepods`, a group per QoS class, a group per pod.

use pinfold_core::name::PodUid;

use super::{GroupPath, SLICE};

impl GroupPath {
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
