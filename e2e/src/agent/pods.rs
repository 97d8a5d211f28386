//! Pods as a person writes them, as the agent reads them, and as the kubelet hands them to a runtime.

use std::collections::BTreeMap;

use pinfold_core::qos::QosClass;
use pinfold_kube::pod::{self, PodObject};
use serde_json::{Map, Value, json};

use crate::containerd::cri::{HugePages, LinuxPod, PodConfig, PodMetadata, Resources};

/// The kubelet's period of CPU time, in microseconds.
const PERIOD: i64 = 100_000;
/// The least that it asks for.
const LEAST_QUOTA: i64 = 1000;
const LEAST_SHARES: i64 = 2;

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Before all others, to its end.
    Init,
    /// From then on.
    Sidecar,
    /// After all init containers.
    App,
}

/// One container of a pod.
#[derive(Clone, Debug)]
pub(crate) struct ContainerPlan {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Thousandths of a CPU: request and limit; 0 for none.
    pub(crate) cpu: (i64, i64),
    /// MiB: request and limit; 0 for none.
    pub(crate) memory: (i64, i64),
    /// Other resources, request and limit alike.
    pub(crate) others: BTreeMap<String, String>,
}

/// A pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodPlan {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) containers: Vec<ContainerPlan>,
}

impl ContainerPlan {
    /// A container whose limits are its requests.
    pub(crate) fn guaranteed(name: &str, milli: i64, mib: i64) -> Self {
        Self::between(name, (milli, milli), (mib, mib))
    }

    /// A container with these requests and limits.
    pub(crate) fn between(name: &str, cpu: (i64, i64), memory: (i64, i64)) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::App,
            cpu,
            memory,
            others: BTreeMap::new(),
        }
    }

    /// The same as another kind.
    pub(crate) fn of_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    fn manifest(&self) -> Value {
        let list = |cpu: i64, mib: i64| {
            let mut list = Map::new();
            if cpu > 0 {
                list.insert("cpu".to_owned(), json!(format!("{cpu}m")));
            }
            if mib > 0 {
                list.insert("memory".to_owned(), json!(format!("{mib}Mi")));
            }
            for (name, amount) in &self.others {
                list.insert(name.clone(), json!(amount));
            }
            list
        };
        let mut container = json!({
            "name": self.name,
            "resources": {
                "requests": list(self.cpu.0, self.memory.0),
                "limits": list(self.cpu.1, self.memory.1),
            },
        });
        if self.kind == Kind::Sidecar {
            container["restartPolicy"] = json!("Always");
        }
        container
    }

    /// What the kubelet has a runtime allow it.
    pub(crate) fn resources(&self) -> Resources {
        let (request, limit) = self.cpu;
        let request = if request == 0 { limit } else { request };
        let pages = |size: &str, resource: &str| HugePages {
            page_size: size.to_owned(),
            limit: self.others.get(resource).map_or(0, |text| mebibytes(text)),
        };
        Resources {
            cpu_period: PERIOD,
            cpu_quota: quota(limit),
            cpu_shares: (request * 1024 / 1000).max(LEAST_SHARES),
            memory_limit: self.memory.1 << 20,
            hugepages: match self
                .others
                .keys()
                .any(|name| name.starts_with("hugepages-"))
            {
                true => vec![pages("2MB", "hugepages-2Mi")],
                false => Vec::new(),
            },
            ..Resources::default()
        }
    }
}

/// Bytes of a number with `Mi`.
fn mebibytes(text: &str) -> u64 {
    let number = text.trim_end_matches("Mi").parse::<u64>();
    number.unwrap_or(0) << 20
}

fn quota(milli: i64) -> i64 {
    match milli {
        0 => 0,
        milli => (milli * PERIOD / 1000).max(LEAST_QUOTA),
    }
}

impl PodPlan {
    /// A pod of these containers.
    pub(crate) fn new(name: &str, containers: Vec<ContainerPlan>) -> Self {
        Self {
            name: name.to_owned(),
            containers,
            ..Self::default()
        }
    }

    /// A pod of one container whose limits are its requests.
    pub(crate) fn guaranteed(name: &str, milli: i64, mib: i64) -> Self {
        Self::new(name, vec![ContainerPlan::guaranteed("main", milli, mib)])
    }

    /// The same with a label.
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The same with an annotation.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn uid(&self) -> String {
        format!("{}-uid", self.name)
    }

    /// The manifest, in JSON.
    pub(crate) fn manifest(&self) -> String {
        let of = |wanted: fn(Kind) -> bool| {
            let some = self.containers.iter().filter(|one| wanted(one.kind));
            some.map(ContainerPlan::manifest).collect::<Vec<_>>()
        };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": "e2e",
                "uid": self.uid(),
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "spec": {
                "initContainers": of(|kind| kind != Kind::App),
                "containers": of(|kind| kind == Kind::App),
            },
        })
        .to_string()
    }

    /// The pod as pinfold-kube reads its manifest.
    pub(crate) fn object(&self) -> Result<PodObject, String> {
        let read = pod::read("a pod of the suite", self.manifest().as_bytes());
        let read = read.map_err(|findings| findings.to_string())?;
        read.value
            .into_iter()
            .next()
            .ok_or_else(|| "no pod".to_owned())
    }

    /// Its control group, as the kubelet names it below `root`.
    pub(crate) fn group(&self, root: &str) -> Result<String, String> {
        let class = match QosClass::of(&self.object()?.pod) {
            QosClass::Guaranteed => "",
            QosClass::Burstable => "/burstable",
            QosClass::BestEffort => "/besteffort",
        };
        Ok(format!("{root}/kubepods{class}/pod{}", self.uid()))
    }

    /// What the kubelet has a runtime make for it.
    pub(crate) fn sandbox(&self, root: &str, attempt: u32) -> Result<PodConfig, String> {
        let apps = self.containers.iter().filter(|one| one.kind != Kind::Init);
        let inits = self.containers.iter().filter(|one| one.kind == Kind::Init);
        let total = |of: fn(&ContainerPlan) -> i64| {
            let together: i64 = apps.clone().map(of).sum();
            inits.clone().map(of).fold(together, i64::max)
        };
        let is_limited = apps.clone().all(|one| one.cpu.1 > 0);
        let remembers = apps.clone().all(|one| one.memory.1 > 0);
        Ok(PodConfig {
            metadata: Some(PodMetadata {
                name: self.name.clone(),
                uid: self.uid(),
                namespace: "e2e".to_owned(),
                attempt,
            }),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            linux: Some(LinuxPod {
                cgroup_parent: self.group(root)?,
                resources: Some(Resources {
                    cpu_period: PERIOD,
                    cpu_quota: if is_limited {
                        quota(total(|one| one.cpu.1))
                    } else {
                        0
                    },
                    cpu_shares: (total(|one| one.cpu.0) * 1024 / 1000).max(LEAST_SHARES),
                    memory_limit: if remembers {
                        total(|one| one.memory.1) << 20
                    } else {
                        0
                    },
                    ..Resources::default()
                }),
                ..LinuxPod::default()
            }),
        })
    }
}
