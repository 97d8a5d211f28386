//! [`CpuState`]: the shared pool and all exclusive CPUs of one machine, and [`CpuEdit`], the only way to change it.
//!
//! An edit contains the values before and after, so that it can be journaled, checked when it is replayed, and undone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cpu_set::CpuSet;
use crate::edit::{Direction, StaleEdit, replace, replace_entry, replace_entry_of_pod};
use crate::name::{ContainerName, PodUid};

/// Exclusive CPUs by pod and container.
pub type ContainerCpus = BTreeMap<PodUid, BTreeMap<ContainerName, CpuSet>>;

/// The shared pool and all exclusive CPUs: the content of the kubelet's `cpu_manager_state`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuState {
    shared: CpuSet,
    #[serde(default)]
    containers: ContainerCpus,
    #[serde(default)]
    pods: BTreeMap<PodUid, CpuSet>,
}

/// One change of a [`CpuState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuEdit {
    /// The shared pool: the CPUs of all containers without exclusive ones (the kubelet's default CPU set).
    SharedPool {
        /// The pool before.
        before: CpuSet,
        /// The pool after.
        after: CpuSet,
    },
    /// The exclusive CPUs of one container.
    Container {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The CPUs before; `None` without an entry.
        before: Option<CpuSet>,
        /// The CPUs after; `None` to remove the entry.
        after: Option<CpuSet>,
    },
    /// The CPUs of a pod with pod-level resources, which are divided among its containers.
    PodSet {
        /// The pod.
        pod: PodUid,
        /// The CPUs before.
        before: Option<CpuSet>,
        /// The CPUs after; `None` to remove the entry.
        after: Option<CpuSet>,
    },
}

/// The edits of one decision, in order.
pub type CpuEdits = SmallVec<[CpuEdit; 2]>;

impl CpuState {
    /// A state from saved values. Pods without containers are left out.
    #[must_use]
    pub fn restored(
        shared: CpuSet,
        mut containers: ContainerCpus,
        pods: BTreeMap<PodUid, CpuSet>,
    ) -> Self {
        containers.retain(|_, containers| !containers.is_empty());
        Self {
            shared,
            containers,
            pods,
        }
    }

    /// The shared pool.
    #[must_use]
    pub fn shared(&self) -> &CpuSet {
        &self.shared
    }

    /// The exclusive CPUs of all containers.
    #[must_use]
    pub fn containers(&self) -> &ContainerCpus {
        &self.containers
    }

    /// The CPUs of all pods with pod-level resources.
    #[must_use]
    pub fn pods(&self) -> &BTreeMap<PodUid, CpuSet> {
        &self.pods
    }

    /// The exclusive CPUs of one container.
    #[must_use]
    pub fn container(&self, pod: &PodUid, container: &ContainerName) -> Option<&CpuSet> {
        self.containers.get(pod)?.get(container)
    }

    /// The CPUs of a pod with pod-level resources.
    #[must_use]
    pub fn pod(&self, pod: &PodUid) -> Option<&CpuSet> {
        self.pods.get(pod)
    }

    /// The exclusive CPUs of all containers of a pod.
    #[must_use]
    pub fn containers_of(&self, pod: &PodUid) -> CpuSet {
        let mut all = CpuSet::new();
        for cpus in self
            .containers
            .get(pod)
            .into_iter()
            .flat_map(BTreeMap::values)
        {
            all |= cpus;
        }
        all
    }

    /// The edit that sets the shared pool; `None` if nothing changes.
    pub(crate) fn set_shared(&self, after: CpuSet) -> Option<CpuEdit> {
        let before = self.shared.clone();
        (before != after).then_some(CpuEdit::SharedPool { before, after })
    }

    /// The edit that sets the CPUs of a container; `None` if nothing changes.
    pub(crate) fn set_container(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        after: Option<CpuSet>,
    ) -> Option<CpuEdit> {
        let before = self.container(pod, container).cloned();
        (before != after).then(|| CpuEdit::Container {
            pod: pod.clone(),
            container: container.clone(),
            before,
            after,
        })
    }

    /// The edit that sets the CPUs of a pod; `None` if nothing changes.
    pub(super) fn set_pod(&self, pod: &PodUid, after: Option<CpuSet>) -> Option<CpuEdit> {
        let before = self.pods.get(pod).cloned();
        (before != after).then(|| CpuEdit::PodSet {
            pod: pod.clone(),
            before,
            after,
        })
    }

    /// Applies an edit.
    ///
    /// # Errors
    /// If the state differs from the value before.
    pub fn apply(&mut self, edit: &CpuEdit) -> Result<(), StaleEdit> {
        self.edit(edit, Direction::Apply)
    }

    pub(crate) fn edit(&mut self, edit: &CpuEdit, direction: Direction) -> Result<(), StaleEdit> {
        match edit {
            CpuEdit::SharedPool { before, after } => {
                let change = direction.order(before, after);
                replace(&mut self.shared, change, || "shared pool".to_owned())
            }
            CpuEdit::Container {
                pod,
                container,
                before,
                after,
            } => {
                let change = direction.order(before.as_ref(), after.as_ref());
                replace_entry_of_pod(&mut self.containers, pod, container, change, || {
                    format!("CPUs of container {container} of pod {pod}")
                })
            }
            CpuEdit::PodSet { pod, before, after } => {
                let change = direction.order(before.as_ref(), after.as_ref());
                replace_entry(&mut self.pods, pod, change, || format!("CPUs of pod {pod}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> CpuSet {
        CpuSet::parse(text).unwrap()
    }

    #[test]
    fn a_stale_edit_changes_nothing() {
        let mut state = CpuState::restored(cpus("0-3"), BTreeMap::new(), BTreeMap::new());
        let untouched = state.clone();
        let edit = CpuEdit::SharedPool {
            before: cpus("0-7"),
            after: cpus("0-1"),
        };
        let stale = state.apply(&edit).unwrap_err();
        assert_eq!(stale.entry, "shared pool");
        assert_eq!(state, untouched);
    }

    #[test]
    fn the_entry_of_a_pod_is_removed_with_its_last_container() {
        let mut state = CpuState::default();
        let (pod, container) = (PodUid::from("p"), ContainerName::from("c"));
        let given = state
            .set_container(&pod, &container, Some(cpus("2")))
            .unwrap();
        state.apply(&given).unwrap();
        assert_eq!(state.container(&pod, &container), Some(&cpus("2")));
        state.edit(&given, Direction::Revert).unwrap();
        assert_eq!(state, CpuState::default());
    }

    #[test]
    fn an_edit_survives_serialization() {
        let edit = CpuEdit::PodSet {
            pod: PodUid::from("p"),
            before: None,
            after: Some(cpus("0-1,8")),
        };
        let text = serde_json::to_string(&edit).unwrap();
        assert_eq!(
            text,
            r#"{"pod-set":{"pod":"p","before":null,"after":"0-1,8"}}"#
        );
        assert_eq!(serde_json::from_str::<CpuEdit>(&text).unwrap(), edit);
    }
}
