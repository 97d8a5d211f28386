//! The pods of the suite: fixed and random ones.

use serde_json::{Map, Value, json};

/// Where pods are, in the namespace of the suite.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// An image that nodes with a real kubelet have.
pub(crate) const IMAGE: &str = "localhost/e2e:1";

/// Amounts by resource.
pub(crate) type Amounts<'t> = &'t [(&'t str, &'t str)];

/// A container that is guaranteed what it asks for.
pub(crate) fn guaranteed(name: &str, amounts: Amounts<'_>) -> Value {
    let list: Map<String, Value> = amounts
        .iter()
        .map(|(resource, amount)| ((*resource).to_owned(), json!(amount)))
        .collect();
    json!({
        "name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/busybox", "sleep", "3600"],
        "resources": { "requests": list, "limits": list },
    })
}

/// A container that shares what others leave.
pub(crate) fn shared(name: &str) -> Value {
    json!({
        "name": name, "image": IMAGE, "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "sleep", "3600"],
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
    })
}

/// A container that is guaranteed CPUs and some memory.
pub(crate) fn cpus(cpus: u32) -> Value {
    guaranteed("main", &[("cpu", &cpus.to_string()), ("memory", "64Mi")])
}

/// A pod for a scheduler.
pub(crate) fn pod(name: &str, scheduler: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "hostNetwork": true,
            "containers": containers,
        },
    })
}

/// The same pod, but for one node alone.
pub(crate) fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    pod
}

/// A deployment of pods with one container, for one node alone.
pub(crate) fn deployment(name: &str, scheduler: &str, node: &str, container: &Value) -> Value {
    let pod = on(pod(name, scheduler, std::slice::from_ref(container)), node);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": pod["spec"],
            },
        },
    })
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides.max(1)
    }

    /// Yes, as often as `percent` in a hundred.
    pub(crate) fn says(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these words.
    pub(crate) fn one_of<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.index(words.len())]
    }

    /// An index of a list of this length, which is not empty.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        let below = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.below(below)).unwrap_or(0)
    }

    /// A random pod of one to three containers, mostly one that kubelets align.
    pub(crate) fn pod(&mut self, name: &str, scheduler: &str) -> Value {
        let containers = match self.below(10) {
            0..=6 => 1,
            7 | 8 => 2,
            _ => 3,
        };
        let kind = self.below(10);
        let containers: Vec<Value> = (0..containers)
            .map(|number| match kind {
                0..=6 => self.whole_cpus(number),
                7 => self.shares(number),
                _ => self.burstable(number),
            })
            .collect();
        let mut pod = pod(name, scheduler, &containers);
        if kind <= 6 && self.says(15) {
            pod["spec"]["initContainers"] = json!([self.whole_cpus(9)]);
        }
        pod
    }

    fn whole_cpus(&mut self, number: u64) -> Value {
        let cpus = match self.below(10) {
            0..=5 => 1 + self.below(4),
            6..=8 => 4 + self.below(9),
            _ => 8 + self.below(25),
        };
        let (cpus, memory) = (cpus.to_string(), self.memory());
        let mut amounts = vec![("cpu", cpus.as_str()), ("memory", memory.as_str())];
        if self.says(20) {
            amounts.push((NIC, "1"));
        }
        guaranteed(&format!("c{number}"), &amounts)
    }

    fn shares(&mut self, number: u64) -> Value {
        let cpu = format!("{}m", 100 * (1 + self.below(25)));
        let memory = self.memory();
        guaranteed(&format!("c{number}"), &[("cpu", &cpu), ("memory", &memory)])
    }

    fn burstable(&mut self, number: u64) -> Value {
        let cpu = format!("{}m", 100 * (1 + self.below(15)));
        json!({
            "name": format!("c{number}"), "image": IMAGE,
            "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
        })
    }

    fn memory(&mut self) -> String {
        match self.below(10) {
            0..=7 => format!("{}Mi", 128 << self.below(6)),
            _ => format!("{}Gi", 8 + self.below(40)),
        }
    }
}

/// A device that some machines of the suite have.
pub(crate) const NIC: &str = "example.com/nic";
