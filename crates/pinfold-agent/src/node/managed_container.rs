//! Pod sandboxes and containers as the container runtime reports them.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::{Container, ResourceList};
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;
use pinfold_kube::pod::PodIdentity;

use crate::allowance::{Allowance, Quota};
use pinfold_journal::PinnedProcess;

/// A pod sandbox of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Sandbox id. A recreated sandbox of the same pod has a different one.
    pub id: String,
    /// UID of the pod.
    pub uid: PodUid,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// Parent cgroup of the pod's containers.
    pub cgroup_parent: String,
    /// Total resources of all its containers, if the kubelet passes them to the runtime.
    pub total: RuntimeResources,
    /// Whether the sandbox runs.
    pub state: SandboxState,
}

/// Whether a sandbox runs. Runtimes also list stopped ones, until the kubelet removes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// It runs.
    Ready,
    /// It was stopped.
    NotReady,
    /// The runtime's list does not say.
    Unknown,
}

impl Sandbox {
    /// `namespace/name` of the pod.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// UID and name of the pod.
    #[must_use]
    pub fn identity(&self) -> PodIdentity {
        PodIdentity {
            uid: self.uid.clone(),
            name: self.full_name(),
        }
    }

    /// The pod's QoS class, derived from the path of its cgroup; `None` if that is not below `kubepods`.
    #[must_use]
    pub fn qos_by_cgroup(&self) -> Option<QosClass> {
        let parent = self.cgroup_parent.as_str();
        match () {
            () if parent.contains("besteffort") => Some(QosClass::BestEffort),
            () if parent.contains("burstable") => Some(QosClass::Burstable),
            () if parent.contains("kubepods") => Some(QosClass::Guaranteed),
            () => None,
        }
    }
}

/// A running container whose CPUs the agent manages, or an external cgroup or process in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedContainer {
    /// The runtime's container id, or the path of an external cgroup or process.
    pub id: String,
    /// Id of its sandbox. Empty for an external cgroup or process.
    pub sandbox: String,
    /// UID of its pod.
    pub pod: PodUid,
    /// Container name in the pod spec.
    pub name: ContainerName,
    /// Its cgroup, as the runtime writes the path.
    pub cgroup: String,
    /// The external process, if there is one instead of a container.
    pub(super) process: Option<PinnedProcess>,
    /// Resources with which the runtime created it.
    pub resources: RuntimeResources,
    /// UID that holds its resources in the ledger: its pod's, or its own if it was admitted without the pod's spec.
    pub(super) resident: PodUid,
    /// The last allowance sent to the runtime; `None` if it is not pinned.
    pub(super) sent_allowance: Option<Allowance>,
    /// What an earlier run of the agent has set, by the runtime's list, until the first allowance is sent.
    pub(super) found_allowance: Option<Allowance>,
    /// Sequence number of the last update, or of its start. 0: it has not started.
    pub(super) update_seq: u64,
    /// Whether the runtime has started it.
    pub(super) started: bool,
}

impl ManagedContainer {
    /// A container that has not been admitted yet.
    #[must_use]
    pub fn new(id: String, sandbox: &Sandbox, name: ContainerName) -> Self {
        Self {
            id,
            sandbox: sandbox.id.clone(),
            pod: sandbox.uid.clone(),
            name,
            cgroup: String::new(),
            process: None,
            resources: RuntimeResources::default(),
            resident: sandbox.uid.clone(),
            sent_allowance: None,
            found_allowance: None,
            update_seq: 0,
            started: false,
        }
    }

    /// An external cgroup that gets the resources of a pod's container.
    pub(super) fn external(group: &str, pod: &PodUid, name: &ContainerName) -> Self {
        Self {
            id: group.to_owned(),
            sandbox: String::new(),
            pod: pod.clone(),
            name: name.clone(),
            cgroup: group.to_owned(),
            process: None,
            resources: RuntimeResources::default(),
            resident: pod.clone(),
            sent_allowance: None,
            found_allowance: None,
            update_seq: 0,
            started: false,
        }
    }

    /// An external process that gets the resources of a pod's container.
    pub(super) fn external_process(held: &PinnedProcess, pod: &PodUid) -> Self {
        let id = format!("/proc/{}", held.process.pid);
        Self {
            id,
            cgroup: String::new(),
            process: Some(held.clone()),
            ..Self::external("", pod, &held.container)
        }
    }

    /// UID that holds its resources in the ledger: its pod's, or its own if it was admitted without the pod's spec.
    #[must_use]
    pub fn resident(&self) -> &PodUid {
        &self.resident
    }

    /// The external process, if there is one instead of a container.
    #[must_use]
    pub fn process(&self) -> Option<&PinnedProcess> {
        self.process.as_ref()
    }

    /// Whether this is an external cgroup or process, which the runtime does not know.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.sandbox.is_empty()
    }

    /// Sequence number of the last update sent. An unchanged number means that no update was sent in between. 0 until the
    /// container starts: the runtime is still creating its cgroup.
    #[must_use]
    pub fn update_seq(&self) -> u64 {
        self.update_seq
    }

    /// The last allowance sent to the runtime; `None` if the container is not pinned.
    #[must_use]
    pub fn sent_allowance(&self) -> Option<&Allowance> {
        self.sent_allowance.as_ref()
    }
}

/// Linux resources in the kubelet's request to the runtime: the kubelet derives them from requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeResources {
    /// CPU shares: 1024 for one CPU.
    pub cpu_shares: Option<u64>,
    /// CFS quota in microseconds per period; none or negative for no limit.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory limit in bytes; none, zero or negative for no limit.
    pub memory_limit: Option<i64>,
    /// Huge page limits in bytes, by the runtime's name of the page size (`2MB`).
    pub hugepages: Vec<(String, u64)>,
    /// `cpuset.cpus` in the kernel's list format. Empty: not set.
    pub cpus: String,
    /// `cpuset.mems` in the kernel's list format. Empty: not set.
    pub mems: String,
}

impl ManagedContainer {
    /// What an earlier run of the agent may have set, by the resources in the runtime's list.
    pub(super) fn listed_allowance(&self, class: Option<QosClass>) -> Option<Allowance> {
        let resources = &self.resources;
        let cpus: CpuSet = resources.cpus.parse().unwrap_or_default();
        let mems: CpuSet = resources.mems.parse().unwrap_or_default();
        let mems = NodeSet::from_ids(mems.iter().map(|id| i64::from(id.get())));
        let mems = mems.unwrap_or(NodeSet::EMPTY);
        let has_quota = resources.cpu_quota.is_none_or(|quota| quota >= 0);
        let is_set = !cpus.is_empty() || !mems.is_empty();
        is_set.then_some(Allowance {
            // Only Guaranteed containers have exclusive CPUs.
            quota: match has_quota || class != Some(QosClass::Guaranteed) {
                true => Quota::AsSpecified,
                false => Quota::Unlimited,
            },
            cpus,
            mems,
        })
    }
}

/// The kernel's default CFS period in microseconds.
const PERIOD: u64 = 100_000;

impl RuntimeResources {
    /// CPU request in milli-CPUs, derived from the CPU shares.
    #[must_use]
    pub fn requested_milli(&self) -> i64 {
        // The kubelet rounds down when it converts milli-CPUs to shares.
        let shares = self.cpu_shares.filter(|&shares| shares > 2).unwrap_or(0);
        let milli = shares.saturating_mul(1000).div_ceil(1024);
        i64::try_from(milli).unwrap_or(i64::MAX)
    }

    /// CPU limit in milli-CPUs; 0 for none.
    #[must_use]
    pub fn limit_milli(&self) -> i64 {
        let quota = self.cpu_quota.filter(|&quota| quota > 0).unwrap_or(0);
        let period = self.cpu_period.filter(|&period| period > 0);
        let period = i64::try_from(period.unwrap_or(PERIOD)).unwrap_or(i64::MAX);
        quota.saturating_mul(1000) / period
    }

    /// Reconstructs the container spec from which the kubelet derived these resources. If the QoS class of the pod is
    /// unknown, a container whose limits equal its requests counts as Guaranteed.
    #[must_use]
    pub fn container(&self, name: ContainerName, class: Option<QosClass>) -> Container {
        let (request, limit) = (self.requested_milli(), self.limit_milli());
        let memory = self.memory_limit.filter(|&bytes| bytes > 0).unwrap_or(0);
        let guaranteed = match class {
            Some(class) => class == QosClass::Guaranteed,
            None => limit > 0 && memory > 0 && limit == request,
        };
        let mut limits = ResourceList::new();
        if limit > 0 {
            limits.insert("cpu".into(), Quantity::milli(limit));
        }
        if memory > 0 {
            limits.insert("memory".into(), Quantity::bytes(memory));
        }
        for (size, bytes) in self.hugepages.iter().filter(|(_, bytes)| *bytes > 0) {
            let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
            if let Some(resource) = hugepages(size) {
                limits.insert(resource, Quantity::bytes(bytes));
            }
        }
        let requests = match guaranteed {
            // The kubelet sets no quota for Guaranteed containers with exclusive CPUs; their limit is the request.
            true if limit == 0 && request > 0 => {
                limits.insert("cpu".into(), Quantity::milli(request));
                limits.clone()
            }
            true => limits.clone(),
            false if request > 0 => [("cpu".into(), Quantity::milli(request))].into(),
            false => ResourceList::new(),
        };
        Container {
            name,
            restartable: false,
            requests,
            limits,
        }
    }
}

/// The Kubernetes resource name of a runtime's page size: `2MB` is `hugepages-2Mi`.
fn hugepages(size: &str) -> Option<ResourceName> {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "KB" => "Ki",
        "MB" => "Mi",
        "GB" => "Gi",
        _ => return None,
    };
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| format!("hugepages-{digits}{unit}").as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(list: &ResourceList, name: &str) -> String {
        list.get(name).map_or_else(String::new, ToString::to_string)
    }

    #[test]
    fn a_guaranteed_container_is_reconstructed_from_its_runtime_resources() {
        let resources = RuntimeResources {
            cpu_shares: Some(2048),
            cpu_quota: Some(200_000),
            cpu_period: Some(100_000),
            memory_limit: Some(64 << 20),
            hugepages: vec![("2MB".to_owned(), 4 << 20), ("1GB".to_owned(), 0)],
            ..RuntimeResources::default()
        };
        let container = resources.container("main".into(), None);
        assert_eq!(container.requests, container.limits);
        assert_eq!(amount(&container.requests, "cpu"), "2");
        assert_eq!(amount(&container.requests, "memory"), "64Mi");
        assert_eq!(amount(&container.requests, "hugepages-2Mi"), "4Mi");
        assert_eq!(amount(&container.requests, "hugepages-1Gi"), "");
    }

    #[test]
    fn every_milli_cpu_request_survives_the_conversion_to_shares() {
        for milli in 3..=4000_u64 {
            let shares = milli * 1024 / 1000;
            let resources = RuntimeResources {
                cpu_shares: Some(shares),
                ..RuntimeResources::default()
            };
            assert_eq!(
                resources.requested_milli().unsigned_abs(),
                milli,
                "{shares}"
            );
        }
    }

    #[test]
    fn the_qos_class_of_the_cgroup_path_overrides_the_amounts() {
        let resources = RuntimeResources {
            cpu_shares: Some(1024),
            cpu_quota: Some(100_000),
            memory_limit: Some(1 << 20),
            ..RuntimeResources::default()
        };
        let burstable = resources.container("main".into(), Some(QosClass::Burstable));
        assert_ne!(burstable.requests, burstable.limits);
        assert_eq!(amount(&burstable.requests, "memory"), "");
    }

    #[test]
    fn malformed_page_sizes_are_ignored() {
        for size in ["", "MB", "2", "2TB", "-2MB", "2 MB", "²MB"] {
            assert_eq!(hugepages(size), None, "{size:?}");
        }
        assert_eq!(hugepages("64KB"), Some("hugepages-64Ki".into()));
    }
}
