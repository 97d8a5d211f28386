//! [`Scanner`]: finds pods where no runtime tells of them: in the control groups that the kubelet makes. What they ask for
//! is known from the API server.
//!
//! ```text
//! kubepods/…/pod<uid>/<id>                                    (cgroupfs)
//! kubepods.slice/…-pod<uid>.slice/cri-containerd-<id>.scope   (systemd)
//! ```
//!
//! Nobody can be rejected here: a pod runs when it is found. It is treated as every running pod that nobody knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pinfold_cgroup::{GroupPath, Hierarchy};
use pinfold_core::name::PodUid;
use pinfold_devices::pod_resources::Reader;
use pinfold_kube::pod::PodObject;

use super::service::now;
use super::witness::Told;
use crate::kubernetes::{CachedPod, PodCache};
use crate::node::{Guest, Node, Sandbox, Update};
use crate::runtime::{Witness, given_to_strangers, lock};

/// How often groups are looked for.
const EVERY: Duration = Duration::from_secs(2);
/// No node has more groups of pods and containers than this, nor lie they deeper.
const MOST_GROUPS: usize = 16_384;
const DEEPEST: usize = 6;

/// Finds pods by their control groups.
pub(super) struct Scanner {
    pub(super) node: Arc<Mutex<Node>>,
    pub(super) pods: PodCache,
    pub(super) hierarchy: Hierarchy,
    pub(super) reader: Reader,
    pub(super) told: Arc<Told>,
    pub(super) others: SyncSender<Vec<Update>>,
}

/// A group of a container: its pod, the runtime's id of it, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    pod: PodUid,
    id: String,
    group: GroupPath,
}

impl Scanner {
    /// Looks again and again.
    pub(super) fn run(&self) {
        let mut before = Vec::new();
        loop {
            // Before the first list nobody knows who is gone.
            if let Some(pods) = self.pods.all() {
                let root = self.hierarchy.cpuset.folder(&GroupPath::root());
                let seats = root.map(|root| seats(&root)).unwrap_or_default();
                let found = found(&pods, &seats);
                let seen: Vec<(String, String)> = known_by(&found);
                if seen != before {
                    before = seen;
                    self.meet(found);
                }
            }
            thread::sleep(EVERY);
        }
    }

    fn meet(&self, (pods, guests): Found) {
        let beside = given_to_strangers(&self.node, &self.reader, &*self.told, &pods);
        let outcome = lock(&self.node).synchronize_beside(pods, guests, beside, now());
        match outcome {
            Ok((updates, remarks)) => {
                for remark in &remarks {
                    self.told.remarked(remark);
                }
                self.told.changed();
                // Drift is repaired if there is no room for it now.
                let _ = self.others.try_send(updates);
            }
            Err(error) => self.told.failed(&error),
        }
    }
}

/// The pods that run, with their specifications, and their containers.
type Found = (Vec<(Sandbox, Option<Arc<PodObject>>)>, Vec<Guest>);

/// Pods and containers by what tells them from others.
fn known_by((pods, guests): &Found) -> Vec<(String, String)> {
    let pods = pods
        .iter()
        .map(|(pod, _)| (pod.uid.to_string(), String::new()));
    let guests = guests
        .iter()
        .map(|guest| (guest.pod.to_string(), guest.id.clone()));
    pods.chain(guests).collect()
}

/// The pods of the API server that have a group here, with the containers whose names are known.
fn found(pods: &[CachedPod], seats: &[Seat]) -> Found {
    let mut by_pod: BTreeMap<&PodUid, Vec<&Seat>> = BTreeMap::new();
    for seat in seats {
        by_pod.entry(&seat.pod).or_default().push(seat);
    }
    let (mut sandboxes, mut guests) = (Vec::new(), Vec::new());
    for CachedPod {
        object: pod,
        containers,
    } in pods
    {
        let Some(seats) = by_pod.get(&pod.pod.uid) else {
            continue;
        };
        let parent = seats.first().and_then(|seat| seat.group.parent());
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
            total: crate::node::Asked::default(),
        };
        for seat in seats {
            // The group that holds the pod's own namespaces is nobody's container.
            if let Some(name) = containers.get(&seat.id) {
                let mut guest = Guest::new(seat.id.clone(), &sandbox, name.clone());
                guest.cgroup = format!("/{}", seat.group);
                guests.push(guest);
            }
        }
        sandboxes.push((sandbox, Some(pod.clone())));
    }
    (sandboxes, guests)
}

/// The groups of containers below a hierarchy's root, ordered.
fn seats(root: &Path) -> Vec<Seat> {
    let mut seats = Vec::new();
    let mut waiting = vec![(GroupPath::root(), 0)];
    let mut looked_at = 0_usize;
    while let Some((group, depth)) = waiting.pop() {
        looked_at += 1;
        if looked_at > MOST_GROUPS {
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
            if !is_group || !within || depth >= DEEPEST {
                continue;
            }
            match (child.pod(), child.pod_group()) {
                (Some(pod), Some(of_pod)) if of_pod != child => seats.push(Seat {
                    pod,
                    id: id(child.name()).to_owned(),
                    group: child,
                }),
                _ => waiting.push((child, depth + 1)),
            }
        }
    }
    seats.sort();
    seats
}

/// The kubelet's groups may lie below one that somebody configured.
fn may_lead_to_pods(group: &GroupPath) -> bool {
    let name = group.name();
    group.ancestors().len() <= 2 && !name.ends_with(".service") && !name.ends_with(".scope")
}

/// The runtime's id of a container: systemd's units have the runtime's name before it.
fn id(name: &str) -> &str {
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
            containers: containers
                .map(|&(id, name)| (id.to_owned(), name.into()))
                .collect(),
        }
    }

    #[test]
    fn containers_are_found_under_both_ways_of_naming_groups() {
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
            let seats = seats(root.path());
            let found: Vec<(&str, &str)> = seats
                .iter()
                .map(|seat| (seat.pod.as_str(), seat.id.as_str()))
                .collect();
            assert_eq!(found, [("a-1", "c0ffee"), ("a-1", "pause1"), ("b", "f00d")]);
        }
    }

    #[test]
    fn who_has_a_group_runs_and_who_has_a_name_is_a_container() {
        let seat = |pod: &str, id: &str| Seat {
            pod: pod.into(),
            id: id.to_owned(),
            group: GroupPath::parse(&format!("kubepods/pod{pod}/{id}")).expect("a path"),
        };
        let seats = [
            seat("a", "c0ffee"),
            seat("a", "pause1"),
            seat("unknown", "x"),
        ];
        let pods = [
            pod("a", &[("c0ffee", "main"), ("dead", "main")]),
            pod("waits", &[]),
        ];
        let (sandboxes, guests) = found(&pods, &seats);
        assert_eq!(sandboxes.len(), 1);
        assert_eq!(sandboxes[0].0.cgroup_parent, "/kubepods/poda");
        assert_eq!(guests.len(), 1);
        assert_eq!(guests[0].name.as_str(), "main");
        assert_eq!(guests[0].cgroup, "/kubepods/poda/c0ffee");
    }
}
