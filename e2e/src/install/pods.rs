//! Pods with NUMA needs, and what the kernel lets them use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::node::{Cluster, group};
use crate::agent::kernel::Groups;
use crate::cluster::pods::{self, PODS};
use crate::cluster::stage::eventually;
use crate::report::equal;

/// The time between two looks at a pod that must not move.
const INTERVAL: Duration = Duration::from_millis(20);
/// The fewest looks that count.
const LEAST_LOOKS: usize = 20;

/// A pod that runs on CPUs of its own.
pub(super) struct Pinned {
    pub(super) name: String,
    /// What the kernel lets its first process use.
    pub(super) cpus: CpuSet,
    process: String,
    container: String,
}

/// A Guaranteed pod with a whole CPU, in the pods' network.
pub(super) fn whole_cpu(name: &str, scheduler: &str) -> Value {
    let mut pod = pods::pod(name, scheduler, &[pods::cpus(1)]);
    pod["spec"]["hostNetwork"] = false.into();
    pod
}

/// Creates a pod with a whole CPU for Pinfold's scheduler, and reads its CPU from the kernel.
pub(super) fn start(cluster: &Cluster, pod: &Value) -> Result<Pinned, String> {
    let name = pod["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    cluster.admin.expect("POST", PODS, Some(pod))?;
    let path = format!("{PODS}/{name}");
    let running = cluster.wait(&format!("{name} runs"), &path, |pod| {
        match pod["status"]["phase"].as_str() {
            Some("Running") => Ok(()),
            _ => Err(pod["status"].to_string()),
        }
    });
    let running = running.map_err(|problem| format!("{problem}\n{}", events(cluster, &name)))?;
    let scheduler = pod["spec"]["schedulerName"].as_str().unwrap_or_default();
    equal("bound by", bound_by(cluster, &name)?.as_str(), scheduler)?;
    eventually("the kernel pins it to one CPU of its own", || {
        let container = container(&running)?;
        let seen = Groups::find().look(&control_group(&container)?)?;
        equal("CPUs of the process", seen.cpus.len(), 1)?;
        equal("CPUs of the control group", &seen.group_cpus, &seen.cpus)?;
        Ok(Pinned {
            name: name.clone(),
            cpus: seen.cpus,
            process: seen.process,
            container,
        })
    })
}

/// The scheduler that the event about the binding of a pod names.
fn bound_by(cluster: &Cluster, name: &str) -> Result<String, String> {
    let selector = format!("involvedObject.name={name},reason=Scheduled");
    let path = format!("/api/v1/namespaces/default/events?fieldSelector={selector}");
    eventually("the event of the binding", || {
        let events = cluster.admin.expect("GET", &path, None)?;
        let reporter = events["items"][0]["reportingComponent"].as_str();
        let reporter = reporter.filter(|reporter| !reporter.is_empty());
        reporter
            .map(str::to_owned)
            .ok_or_else(|| events.to_string())
    })
}

/// The events of a pod, for people.
fn events(cluster: &Cluster, name: &str) -> String {
    let said = cluster.user(&format!(
        "kubectl get events --field-selector involvedObject.name={name}"
    ));
    said.unwrap_or_else(|problem| problem)
}

/// Deletes a pod, and waits until it is gone.
pub(super) fn delete(cluster: &Cluster, name: &str) -> Result<(), String> {
    cluster
        .user(&format!("kubectl delete pod {name} --ignore-not-found"))
        .map(drop)
}

/// The runtime's id of the container of a pod.
fn container(pod: &Value) -> Result<String, String> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str();
    let id = id.and_then(|id| id.strip_prefix("containerd://"));
    id.map(str::to_owned)
        .ok_or_else(|| format!("no container: {}", pod["status"]))
}

/// The control group of a container, below that of the node.
fn control_group(container: &str) -> Result<String, String> {
    let root = Groups::find().cpuset("/");
    let found = find(&root.join(group()), container);
    let found = found.ok_or_else(|| format!("container {container} has no control group"))?;
    let relative = found.strip_prefix(&root).unwrap_or(&found);
    Ok(format!("/{}", relative.display()))
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut below = below.map(|entry| entry.path()).filter(|path| path.is_dir());
    below.find_map(|path| match path.ends_with(name) {
        true => Some(path),
        false => find(&path, name),
    })
}

impl Pinned {
    /// Does something to the cluster; fails if the pod is on other CPUs, or its process or container another one, at any
    /// moment meanwhile. The number of looks is the other result.
    pub(super) fn undisturbed<T>(
        &self,
        cluster: &Cluster,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, usize), String> {
        let over = AtomicBool::new(false);
        let (done, looks) = thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let mut looks = 0;
                while !over.load(Ordering::Relaxed) {
                    self.look()?;
                    looks += 1;
                    thread::sleep(INTERVAL);
                }
                self.look().map(|()| looks)
            });
            let done = work();
            over.store(true, Ordering::Relaxed);
            let looks = watching
                .join()
                .unwrap_or_else(|_| Err("the watch fell".to_owned()));
            (done, looks)
        });
        let (done, looks) = (done?, looks?);
        let pod = cluster
            .admin
            .expect("GET", &format!("{PODS}/{}", self.name), None)?;
        equal("container", container(&pod)?, self.container.clone())?;
        equal("looks are enough", looks >= LEAST_LOOKS, true)?;
        Ok((done, looks))
    }

    fn look(&self) -> Result<(), String> {
        let path = format!("/proc/{}/status", self.process);
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cpus = line.unwrap_or_default().trim();
        equal("CPUs", cpus, self.cpus.to_string().as_str())
            .map_err(|problem| format!("{}: {problem}", self.name))
    }
}

/// A pod of Koordinator's QoS class LSR with a CPU of its own.
pub(super) fn lsr(name: &str) -> Value {
    let mut pod = whole_cpu(name, "pinfold");
    pod["metadata"]["labels"] = json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    pod["spec"]["priorityClassName"] = "koord-prod".into();
    pod
}
