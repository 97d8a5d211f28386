//! What a container runtime tells: sandboxes of pods, and the containers in them.

use std::collections::BTreeMap;

use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::{Container, ResourceList};
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;

use crate::allowance::Allowance;
use pinfold_journal::PinnedProcess;

/// A pod as its runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id of it. A pod whose sandbox is made anew has another.
    pub id: String,
    /// The pod.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The control group below which its containers are.
    pub cgroup_parent: String,
    /// What its containers may use together, where the runtime is told.
    pub total: Asked,
}

impl Sandbox {
    /// What people call the pod.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Kubernetes' class of the pod, as far as the place of its control group tells it.
    #[must_use]
    pub fn class_by_place(&self) -> Option<QosClass> {
        let parent = self.cgroup_parent.as_str();
        match () {
            () if parent.contains("besteffort") => Some(QosClass::BestEffort),
            () if parent.contains("burstable") => Some(QosClass::Burstable),
            () if parent.contains("kubepods") => Some(QosClass::Guaranteed),
            () => None,
        }
    }
}

/// A container as its runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The runtime's id of it.
    pub id: String,
    /// The id of its sandbox.
    pub sandbox: String,
    /// Its pod.
    pub pod: PodUid,
    /// Its name in the pod.
    pub name: ContainerName,
    /// Its control group, in the runtime's words.
    pub cgroup: String,
    /// The process that is in the place of a container, where it has no control group of its own.
    pub(super) process: Option<PinnedProcess>,
    /// What it may use, as it was created.
    pub asked: Asked,
    /// Under which id the ledger knows it: its pod's, or one of its own if nobody knows the pod's specification.
    pub(super) resident: PodUid,
    /// What its runtime was last told; `None` if it was left alone.
    pub(super) told: Option<Allowance>,
    /// The number of the last thing it was told, or of its start: no two are alike. 0: it has not started.
    pub(super) changes: u64,
}

impl Guest {
    /// A container that the node has not seen yet.
    #[must_use]
    pub fn new(id: String, sandbox: &Sandbox, name: ContainerName) -> Self {
        Self {
            id,
            sandbox: sandbox.id.clone(),
            pod: sandbox.uid.clone(),
            name,
            cgroup: String::new(),
            process: None,
            asked: Asked::default(),
            resident: sandbox.uid.clone(),
            told: None,
            changes: 0,
        }
    }

    /// A control group that no runtime knows, in the place of a container.
    pub(super) fn outside(group: &str, pod: &PodUid, name: &ContainerName) -> Self {
        Self {
            id: group.to_owned(),
            sandbox: String::new(),
            pod: pod.clone(),
            name: name.clone(),
            cgroup: group.to_owned(),
            process: None,
            asked: Asked::default(),
            resident: pod.clone(),
            told: None,
            changes: 0,
        }
    }

    /// A process that no runtime knows, in the place of a container.
    pub(super) fn of_process(held: &PinnedProcess, pod: &PodUid) -> Self {
        let id = format!("/proc/{}", held.process.pid);
        Self {
            id,
            cgroup: String::new(),
            process: Some(held.clone()),
            ..Self::outside("", pod, &held.container)
        }
    }

    /// The process in the place of a container.
    #[must_use]
    pub fn process(&self) -> Option<&PinnedProcess> {
        self.process.as_ref()
    }

    /// Whether no runtime knows it.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.sandbox.is_empty()
    }

    /// The number of the last thing it was told: who finds the same one twice knows that nothing happened in between.
    /// 0 as long as it has not started: its control group is still being made.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What its runtime was last told; `None` if it was left alone.
    #[must_use]
    pub fn told(&self) -> Option<&Allowance> {
        self.told.as_ref()
    }
}

/// What a runtime is asked to let a container use: what its requests and limits became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The weight against other groups: 1024 for one CPU.
    pub cpu_shares: Option<u64>,
    /// Microseconds of CPU time per period; none or negative for no limit.
    pub cpu_quota: Option<i64>,
    /// The period in microseconds.
    pub cpu_period: Option<u64>,
    /// The most memory in bytes; none or not above zero for no limit.
    pub memory_limit: Option<i64>,
    /// Bytes of huge pages by the runtime's name of the size (`2MB`).
    pub hugepages: Vec<(String, u64)>,
    /// CPUs as a list of the kernel, if somebody chose some.
    pub cpus: String,
}

/// The period that is meant where none is said.
const PERIOD: u64 = 100_000;

impl Asked {
    /// The requested CPU in thousandths, as far as the weight tells it.
    #[must_use]
    pub fn requested_milli(&self) -> i64 {
        // The kubelet rounds down when it makes shares of thousandths.
        let shares = self.cpu_shares.filter(|&shares| shares > 2).unwrap_or(0);
        let milli = shares.saturating_mul(1000).div_ceil(1024);
        i64::try_from(milli).unwrap_or(i64::MAX)
    }

    /// The limit on CPU in thousandths; 0 for none.
    #[must_use]
    pub fn limit_milli(&self) -> i64 {
        let quota = self.cpu_quota.filter(|&quota| quota > 0).unwrap_or(0);
        let period = self.cpu_period.filter(|&period| period > 0);
        let period = i64::try_from(period.unwrap_or(PERIOD)).unwrap_or(i64::MAX);
        quota.saturating_mul(1000) / period
    }

    /// The container of a pod's specification that would have become this. Where the class of the pod is not known, a
    /// container whose limits equal its requests is taken for one of a guaranteed pod.
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
            // No limit on CPU time is what becomes of guaranteed containers with CPUs of their own elsewhere.
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

/// The resource that a runtime's name of a page size stands for: `2MB` is `hugepages-2Mi`.
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
    fn a_guaranteed_container_is_known_from_what_its_runtime_is_asked() {
        let asked = Asked {
            cpu_shares: Some(2048),
            cpu_quota: Some(200_000),
            cpu_period: Some(100_000),
            memory_limit: Some(64 << 20),
            hugepages: vec![("2MB".to_owned(), 4 << 20), ("1GB".to_owned(), 0)],
            cpus: String::new(),
        };
        let container = asked.container("main".into(), None);
        assert_eq!(container.requests, container.limits);
        assert_eq!(amount(&container.requests, "cpu"), "2");
        assert_eq!(amount(&container.requests, "memory"), "64Mi");
        assert_eq!(amount(&container.requests, "hugepages-2Mi"), "4Mi");
        assert_eq!(amount(&container.requests, "hugepages-1Gi"), "");
    }

    #[test]
    fn every_request_in_thousandths_survives_the_way_through_shares() {
        for milli in 3..=4000_u64 {
            let shares = milli * 1024 / 1000;
            let asked = Asked {
                cpu_shares: Some(shares),
                ..Asked::default()
            };
            assert_eq!(asked.requested_milli().unsigned_abs(), milli, "{shares}");
        }
    }

    #[test]
    fn the_place_of_the_control_group_beats_the_numbers() {
        let asked = Asked {
            cpu_shares: Some(1024),
            cpu_quota: Some(100_000),
            memory_limit: Some(1 << 20),
            ..Asked::default()
        };
        let burstable = asked.container("main".into(), Some(QosClass::Burstable));
        assert_ne!(burstable.requests, burstable.limits);
        assert_eq!(amount(&burstable.requests, "memory"), "");
    }

    #[test]
    fn sizes_of_pages_that_mean_nothing_are_left_out() {
        for size in ["", "MB", "2", "2TB", "-2MB", "2 MB", "²MB"] {
            assert_eq!(hugepages(size), None, "{size:?}");
        }
        assert_eq!(hugepages("64KB"), Some("hugepages-64Ki".into()));
    }
}
