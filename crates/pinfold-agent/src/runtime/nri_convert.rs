//! Converts between NRI messages and the types of the node.

use std::path::Path;

use nri::api::{Container, ContainerUpdate, LinuxResources, PodSandbox};

use super::Subject;
use crate::allowance::{Allowance, Quota};
use crate::node::{ManagedContainer, RuntimeResources, Sandbox, SandboxState, Update};

/// CFS quota without a limit.
const NO_QUOTA: i64 = -1;
/// CFS period in microseconds.
const PERIOD: u64 = 100_000;

/// The NRI message of an update. The runtime reports a failure.
#[must_use]
pub fn update(update: &Update) -> ContainerUpdate {
    ContainerUpdate::new(&update.container)
        .resources(|resources| resources_of(resources, &update.allowance))
}

/// Adds an allowance to the Linux resources of a message.
pub(super) fn resources_of(resources: LinuxResources, allowance: &Allowance) -> LinuxResources {
    let mut resources = resources;
    if !allowance.cpus.is_empty() {
        resources = resources.cpus(allowance.cpus.to_string());
    }
    if !allowance.mems.is_empty() {
        resources = resources.mems(allowance.mems.to_string());
    }
    match allowance.quota {
        Quota::AsSpecified => resources,
        Quota::Limited { quota, period } => {
            resources.cpu_quota(i64::try_from(quota).unwrap_or(NO_QUOTA), period)
        }
        Quota::Unlimited => resources.cpu_quota(NO_QUOTA, PERIOD),
    }
}

/// The subject of a decision on this pod or container.
pub(super) fn subject<'a>(pod: &'a PodSandbox, container: Option<&'a str>) -> Subject<'a> {
    Subject {
        uid: &pod.uid,
        namespace: &pod.namespace,
        name: &pod.name,
        container,
    }
}

/// The sandbox of an NRI message.
pub(super) fn sandbox(pod: &PodSandbox) -> Sandbox {
    let linux = pod.linux.clone().unwrap_or_default();
    Sandbox {
        id: pod.id.clone(),
        // Sandboxes that were not created by a kubelet may have no pod UID.
        uid: match pod.uid.as_str() {
            "" => pod.id.as_str().into(),
            uid => uid.into(),
        },
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
        cgroup_parent: linux.cgroup_parent,
        total: linux
            .pod_resources
            .as_ref()
            .map(runtime_resources)
            .unwrap_or_default(),
        state: SandboxState::Ready,
    }
}

/// A sandbox in the list of a runtime, which has stopped ones too. containerd sends a pid only for those that run. CRI-O
/// may run pods without a pause process, so that their pid is always 0.
pub(super) fn listed_sandbox(pod: &PodSandbox, runtime_sends_pids: bool) -> Sandbox {
    let state = match () {
        () if pod.pid > 0 => SandboxState::Ready,
        () if runtime_sends_pids => SandboxState::NotReady,
        () => state_by_namespaces(pod),
    };
    Sandbox {
        state,
        ..sandbox(pod)
    }
}

/// Whether a sandbox of CRI-O runs: its list has the namespaces of stopped sandboxes too, but it removes their files. An agent
/// in a pod may not see these.
fn state_by_namespaces(pod: &PodSandbox) -> SandboxState {
    let namespaces = pod.linux.iter().flat_map(|linux| &linux.namespaces);
    let mut state = SandboxState::NotReady;
    for namespace in namespaces {
        let file = Path::new(&namespace.path);
        let is_visible = !file.starts_with("/proc")
            && file.is_absolute()
            && file.parent().is_some_and(Path::is_dir);
        match (is_visible, state) {
            (true, _) if !file.exists() => return SandboxState::NotReady,
            (true, _) => state = SandboxState::Ready,
            (false, SandboxState::NotReady) => state = SandboxState::Unknown,
            (false, _) => {}
        }
    }
    state
}

/// The container of an NRI message.
pub(super) fn managed_container(container: &Container, sandbox: &Sandbox) -> ManagedContainer {
    let name = container.name.as_str().into();
    let mut managed = ManagedContainer::new(container.id.clone(), sandbox, name);
    if let Some(linux) = &container.linux {
        managed.cgroup.clone_from(&linux.cgroups_path);
        managed.resources = linux
            .resources
            .as_ref()
            .map(runtime_resources)
            .unwrap_or_default();
    }
    managed
}

/// The resources of an NRI message.
pub(super) fn runtime_resources(resources: &LinuxResources) -> RuntimeResources {
    let cpu = resources.cpu.clone().unwrap_or_default();
    let pages = resources.hugepage_limits.iter();
    RuntimeResources {
        cpu_shares: cpu.shares,
        cpu_quota: cpu.quota,
        cpu_period: cpu.period,
        memory_limit: resources.memory.as_ref().and_then(|memory| memory.limit),
        hugepages: pages
            .map(|page| (page.page_size.clone(), page.limit))
            .collect(),
        cpus: cpu.cpus,
        mems: cpu.mems,
    }
}

#[cfg(test)]
mod tests {
    use nri::api::{LinuxNamespace, LinuxPodSandbox};

    use super::*;

    #[test]
    fn a_sandbox_of_cri_o_runs_if_the_files_of_its_namespaces_are_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("there"), "").expect("a file");
        let state = |paths: &[String]| {
            let namespaces = paths.iter().map(|path| LinuxNamespace {
                path: path.clone(),
                ..LinuxNamespace::default()
            });
            let pod = PodSandbox {
                linux: Some(LinuxPodSandbox {
                    namespaces: namespaces.collect(),
                    ..LinuxPodSandbox::default()
                }),
                ..PodSandbox::default()
            };
            listed_sandbox(&pod, false).state
        };
        let (there, gone) = (file("there"), file("gone"));
        let (hidden, of_host) = (file("hidden/uts"), "/proc/1/ns/net".to_owned());
        let new = String::new();
        for (paths, expected) in [
            (vec![], SandboxState::NotReady),
            (vec![new.clone(), of_host.clone()], SandboxState::Unknown),
            (vec![hidden.clone()], SandboxState::Unknown),
            (
                vec![of_host.clone(), there.clone(), new],
                SandboxState::Ready,
            ),
            (vec![hidden, there.clone()], SandboxState::Ready),
            (vec![there, of_host, gone], SandboxState::NotReady),
        ] {
            assert_eq!(state(&paths), expected, "{paths:?}");
        }
    }
}
