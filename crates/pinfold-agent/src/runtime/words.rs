//! The runtime's words for what we know, and ours for what it tells.

use nri::api::{Container, ContainerUpdate, LinuxResources, PodSandbox};

use super::Subject;
use crate::allowance::{Allowance, Quota};
use crate::node::{Asked, Guest, Sandbox, Update};

/// Runtimes forbid nothing less than this as a quota: no limit.
const NO_QUOTA: i64 = -1;
/// The period that goes with it.
const PERIOD: u64 = 100_000;

/// An update as the runtime wants it. A container that ends this very moment is no reason to fail anything.
#[must_use]
pub fn update(update: &Update) -> ContainerUpdate {
    ContainerUpdate::new(&update.container)
        .resources(|resources| resources_of(resources, &update.allowance))
        .ignore_failure()
}

pub(super) fn resources_of(resources: LinuxResources, allowance: &Allowance) -> LinuxResources {
    let mut resources = resources;
    if !allowance.cpus.is_empty() {
        resources = resources.cpus(allowance.cpus.to_string());
    }
    if !allowance.mems.is_empty() {
        resources = resources.mems(allowance.mems.to_string());
    }
    match allowance.quota {
        Quota::AsAsked => resources,
        Quota::Lifted => resources.cpu_quota(NO_QUOTA, PERIOD),
    }
}

pub(super) fn subject<'a>(pod: &'a PodSandbox, container: Option<&'a str>) -> Subject<'a> {
    Subject {
        uid: &pod.uid,
        namespace: &pod.namespace,
        name: &pod.name,
        container,
    }
}

pub(super) fn sandbox(pod: &PodSandbox) -> Sandbox {
    let linux = pod.linux.clone().unwrap_or_default();
    Sandbox {
        id: pod.id.clone(),
        // Sandboxes that no kubelet makes may lack one.
        uid: match pod.uid.as_str() {
            "" => pod.id.as_str().into(),
            uid => uid.into(),
        },
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
        cgroup_parent: linux.cgroup_parent,
        total: asked(linux.pod_resources.as_ref()),
    }
}

pub(super) fn guest(container: &Container, sandbox: &Sandbox) -> Guest {
    let name = container.name.as_str().into();
    let mut guest = Guest::new(container.id.clone(), sandbox, name);
    if let Some(linux) = &container.linux {
        guest.cgroup.clone_from(&linux.cgroups_path);
        guest.asked = asked(linux.resources.as_ref());
    }
    guest
}

fn asked(resources: Option<&LinuxResources>) -> Asked {
    let Some(resources) = resources else {
        return Asked::default();
    };
    let cpu = resources.cpu.clone().unwrap_or_default();
    let pages = resources.hugepage_limits.iter();
    Asked {
        cpu_shares: cpu.shares,
        cpu_quota: cpu.quota,
        cpu_period: cpu.period,
        memory_limit: resources.memory.as_ref().and_then(|memory| memory.limit),
        hugepages: pages
            .map(|page| (page.page_size.clone(), page.limit))
            .collect(),
        cpus: cpu.cpus,
    }
}
