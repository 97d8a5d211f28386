//! [`CgroupScanner`]: finds running pods by the cgroups that the kubelet creates, for nodes whose runtime has no NRI. Their
//! specs come from the API server.
//!
//! ```text
//! kubepods/…/pod<uid>/<id>                                    (cgroupfs)
//! kubepods.slice/…-pod<uid>.slice/cri-containerd-<id>.scope   (systemd)
//! ```
//!
//! A pod already runs when it is found, so it cannot be rejected. It is handled like every running pod that is not in the
//! journal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pinfold_cgroup::{GroupPath, Hierarchy};
use pinfold_core::name::PodUid;
use pinfold_devices::pod_resources::PodResourcesClient;
use pinfold_kube::pod::PodObject;

use super::service::now;
use super::telemetry::NodeTelemetry;
use crate::kubernetes::{CachedPod, PodCache};
use crate::node::{ManagedContainer, ManagedNode, Sandbox, SandboxState, SyncChange, Update};
use crate::runtime::{Telemetry, kubelet_devices_of_new_pods, lock};

/// Interval between scans.
const INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of cgroups in a scan, more than a node has.
const MAX_GROUPS: usize = 16_384;
/// Maximum depth of a container's cgroup below the root.
const MAX_DEPTH: usize = 6;

/// Finds running pods by their cgroups and synchronizes the node with them.
pub(super) struct CgroupScanner {
    pub(super) node: Arc<Mutex<ManagedNode>>,
    pub(super) pods: PodCache,
    pub(super) hierarchy: Hierarchy,
    pub(super) reader: PodResourcesClient,
    pub(super) telemetry: Arc<NodeTelemetry>,
    pub(super) updates: SyncSender<Vec<Update>>,
}

/// The cgroup of a container, with the pod UID and container id of its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ContainerCgroup {
    pod: PodUid,
    id: String,
    group: GroupPath,
}

impl CgroupScanner {
    /// Scans forever.
    pub(super) fn run(&self) {
        let mut last = Vec::new();
        loop {
            // Before the first list of pods every pod would count as terminated.
            if let Some(pods) = self.pods.all() {
                let root = self.hierarchy.cpuset.folder(&GroupPath::root());
                let cgroups = root
                    .map(|root| container_cgroups(&root))
                    .unwrap_or_default();
                let found = running_pods(&pods, &cgroups);
                let seen: Vec<(String, String)> = identities(&found);
                if seen != last {
                    last = seen;
                    self.sync_pod(found);
                }
            }
            thread::sleep(INTERVAL);
        }
    }

    fn sync_pod(&self, (pods, containers): RunningPods) {
        let kubelet_devices = kubelet_devices_of_new_pods(&self.node, &self.reader, &pods);
        let (updates, sync_changes) = lock(&self.node).synchronize_with_kubelet_devices(
            pods,
            containers,
            kubelet_devices,
            now(),
        );
        for change in &sync_changes {
            self.telemetry.record_sync_change(change);
            // Every pod starts unpinned here, so that only one that stays unpinned is worth a warning.
            if matches!(change, SyncChange::UsesSharedPool { .. })
                && let Some(warning) = lock(&self.node).unpinned_start(change)
            {
                self.telemetry.warn_pod(warning);
            }
        }
        self.telemetry.node_changed();
        // If the queue is full, the drift monitor repairs the containers later.
        let _ = self.updates.try_send(updates);
    }
}

/// The running pods with their specs, and their containers.
type RunningPods = (
    Vec<(Sandbox, Option<Arc<PodObject>>)>,
    Vec<ManagedContainer>,
);

/// Pod UIDs and container ids, to detect changes between scans.
fn identities((pods, containers): &RunningPods) -> Vec<(String, String)> {
    let pods = pods
        .iter()
        .map(|(pod, _)| (pod.uid.to_string(), String::new()));
    let containers = containers
        .iter()
        .map(|container| (container.pod.to_string(), container.id.clone()));
    pods.chain(containers).collect()
}

/// The pods of the API server that have a cgroup on this node, with the containers whose ids are in the pod status.
fn running_pods(pods: &[CachedPod], cgroups: &[ContainerCgroup]) -> RunningPods {
    let mut by_pod: BTreeMap<&PodUid, Vec<&ContainerCgroup>> = BTreeMap::new();
    for cgroup in cgroups {
        by_pod.entry(&cgroup.pod).or_default().push(cgroup);
    }
    let (mut sandboxes, mut containers) = (Vec::new(), Vec::new());
    for CachedPod {
        object: pod,
        containers: names,
        ..
    } in pods
    {
        let Some(cgroups) = by_pod.get(&pod.pod.uid) else {
            continue;
        };
        let parent = cgroups.first().and_then(|cgroup| cgroup.group.parent());
        let sandbox = Sandbox {
            id: pod.pod.uid.to_string(),
            uid: pod.pod.uid.clone(),
            namespace: pod.meta.namespace.clone(),
            name: pod.meta.name.clone(),
            labels: pod.meta.labels.clone(),
            annotations: pod.meta.annotations.clone(),
            cgroup_parent: parent
                .map(|parent| format!("/{parent}"))
                .unwrap_or_default(),
            total: crate::node::RuntimeResources::default(),
            state: SandboxState::Ready,
        };
        for cgroup in cgroups {
            // The cgroup of the pod's sandbox (pause) is not in the container statuses.
            if let Some(name) = names.get(&cgroup.id) {
                let mut container =
                    ManagedContainer::new(cgroup.id.clone(), &sandbox, name.clone());
                container.cgroup = format!("/{}", cgroup.group);
                containers.push(container);
            }
        }
        sandboxes.push((sandbox, Some(pod.clone())));
    }
    (sandboxes, containers)
}

/// The cgroups of containers below the root of a hierarchy, sorted.
fn container_cgroups(root: &Path) -> Vec<ContainerCgroup> {
    let mut cgroups = Vec::new();
    let mut waiting = vec![(GroupPath::root(), 0)];
    let mut visited = 0_usize;
    while let Some((group, depth)) = waiting.pop() {
        visited += 1;
        if visited > MAX_GROUPS {
            break;
        }
        let folder = root.join(group.as_str());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_group = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name();
            let Some(child) = name.to_str().and_then(|name| group.child(name).ok()) else {
                continue;
            };
            let within = child.kubepods().is_some() || may_lead_to_pods(&child);
            if !is_group || !within || depth >= MAX_DEPTH {
                continue;
            }
            match (child.pod(), child.pod_group()) {
                (Some(pod), Some(of_pod)) if of_pod != child => cgroups.push(ContainerCgroup {
                    pod,
                    id: container_id(child.name()).to_owned(),
                    group: child,
                }),
                _ => waiting.push((child, depth + 1)),
            }
        }
    }
    cgroups.sort();
    cgroups
}

/// Whether the kubelet's cgroups may be below this one: `--cgroup-root` can be set.
fn may_lead_to_pods(group: &GroupPath) -> bool {
    let name = group.name();
    group.ancestors().len() <= 2 && !name.ends_with(".service") && !name.ends_with(".scope")
}

/// The container id in the name of a cgroup: systemd scopes have the runtime's name as prefix.
fn container_id(name: &str) -> &str {
    match name.strip_suffix(".scope") {
        Some(unit) => unit.rsplit('-').next().unwrap_or(unit),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use pinfold_kube::pod;

    use super::*;

    fn pod(uid: &str, containers: &[(&str, &str)]) -> CachedPod {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {uid}, uid: {uid}}}\n\
             spec: {{containers: [{{name: main}}]}}\n"
        );
        let read = pod::read("pod.yaml", manifest.as_bytes()).expect("a pod");
        let containers = containers.iter();
        CachedPod {
            object: Arc::new(read.value.into_iter().next().expect("a pod")),
            phase: pod::PodPhase::Started,
            status_phase: pod::StatusPhase::Running,
            containers: containers
                .map(|&(id, name)| (id.to_owned(), name.into()))
                .collect(),
        }
    }

    #[test]
    fn containers_are_found_with_both_cgroup_drivers() {
        for tree in [
            [
                "kubepods/burstable/poda-1/c0ffee",
                "kubepods/burstable/poda-1/pause1",
                "kubepods/podb/f00d/inner",
                "system/c0ffee",
            ],
            [
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_1.slice/cri-containerd-c0ffee.scope",
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_1.slice/crio-pause1.scope",
                "kubepods.slice/kubepods-podb.slice/docker-f00d.scope/inner",
                "system.slice/kubelet.service",
            ],
        ] {
            let root = tempfile::tempdir().expect("a folder");
            for group in tree {
                fs::create_dir_all(root.path().join(group)).expect("a group");
            }
            fs::write(root.path().join("cpuset.cpus"), "0-3").expect("a file");
            let cgroups = container_cgroups(root.path());
            let found: Vec<(&str, &str)> = cgroups
                .iter()
                .map(|cgroup| (cgroup.pod.as_str(), cgroup.id.as_str()))
                .collect();
            assert_eq!(found, [("a-1", "c0ffee"), ("a-1", "pause1"), ("b", "f00d")]);
        }
    }

    #[test]
    fn a_pod_with_a_cgroup_runs_and_a_cgroup_in_the_pod_status_is_a_container() {
        let cgroup = |pod: &str, id: &str| ContainerCgroup {
            pod: pod.into(),
            id: id.to_owned(),
            group: GroupPath::parse(&format!("kubepods/pod{pod}/{id}")).expect("a path"),
        };
        let cgroups = [
            cgroup("a", "c0ffee"),
            cgroup("a", "pause1"),
            cgroup("unknown", "x"),
        ];
        let pods = [
            pod("a", &[("c0ffee", "main"), ("dead", "main")]),
            pod("waits", &[]),
        ];
        let (sandboxes, containers) = running_pods(&pods, &cgroups);
        assert_eq!(sandboxes.len(), 1);
        assert_eq!(sandboxes[0].0.cgroup_parent, "/kubepods/poda");
        assert_eq!(containers.len(), 1);
        assert_eq!(containers[0].name.as_str(), "main");
        assert_eq!(containers[0].cgroup, "/kubepods/poda/c0ffee");
    }
}
