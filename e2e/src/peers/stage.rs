//! [`Stage`]: the API server of the suite, and agents on played machines.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::record::Recorder;
use crate::agent::pretend;
use crate::agent::process::{Agent, Setup};
use crate::cluster::stage::{self, eventually};
use crate::control_plane::Credentials;
use crate::programs::{self, PINFOLD, workspace};

/// Where topology objects are, in the version that Koordinator reads.
pub(crate) const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";

/// The control plane with our definitions and roles, and everything that all themes need.
pub(crate) struct Stage {
    cluster: stage::Stage,
    /// The seed of this run.
    pub(crate) seed: u64,
    pub(crate) recorder: Recorder,
    /// The node agent and the command line.
    agent: PathBuf,
    pub(crate) pinfold: PathBuf,
    kubeconfig: PathBuf,
}

impl Deref for Stage {
    type Target = stage::Stage;

    fn deref(&self) -> &stage::Stage {
        &self.cluster
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut stage::Stage {
        &mut self.cluster
    }
}

/// A machine that the suite plays: as many cores on every NUMA node, CPUs numbered as the kernel does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sockets: u32,
    /// NUMA nodes of a socket.
    pub(crate) nodes: u32,
    /// Cores of a NUMA node.
    pub(crate) cores: u32,
    /// Threads of a core.
    pub(crate) threads: u32,
    /// Memory of a NUMA node, in GiB.
    pub(crate) gib: u64,
}

impl Shape {
    /// The number of CPUs.
    pub(crate) fn cpus(self) -> u32 {
        self.sockets * self.nodes * self.cores * self.threads
    }

    /// As [`pretend::write`] reads it. The kernel numbers the first threads of all cores first, and the cores of every
    /// socket from 0.
    pub(crate) fn description(self) -> Value {
        let all = self.sockets * self.nodes * self.cores;
        let nodes: Vec<Value> = (0..self.sockets * self.nodes)
            .map(|node| {
                let socket = node / self.nodes;
                let cores = (0..self.cores).map(|core| {
                    let number = node * self.cores + core;
                    let threads: Vec<u32> = (0..self.threads)
                        .map(|thread| number + thread * all)
                        .collect();
                    let within = number % (self.nodes * self.cores);
                    json!({ "socket": socket, "core": within, "threads": threads, "uncore": socket })
                });
                let cores: Vec<Value> = cores.collect();
                json!({ "id": node, "memory": self.gib << 30, "cores": cores })
            })
            .collect();
        json!({ "nodes": nodes })
    }

    /// A Node object with these labels and annotations, of which pods can have everything.
    pub(crate) fn node(self, name: &str, labels: &Value, annotations: &Value) -> Value {
        let mut labels = labels.clone();
        labels["kubernetes.io/hostname"] = name.into();
        let memory = format!("{}Gi", u64::from(self.sockets * self.nodes) * self.gib);
        let amounts = json!({ "cpu": self.cpus().to_string(), "memory": memory, "pods": "500" });
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": labels, "annotations": annotations },
            "status": {
                "capacity": amounts, "allocatable": amounts,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
            },
        })
    }
}

/// How the agent of a played machine is set up.
pub(crate) struct Played<'a> {
    pub(crate) name: &'a str,
    pub(crate) shape: Shape,
    /// `manage` or `mirror`.
    pub(crate) mode: &'static str,
    /// `kubelet` or `koordinator`.
    pub(crate) dialect: &'static str,
    /// A KubeletConfiguration.
    pub(crate) rules: &'a str,
    /// More lines of `kubernetes` in its configuration, as `{"otherWriters": "repair"}`; null for an agent without the
    /// API server.
    pub(crate) kubernetes: Value,
}

impl Stage {
    /// Starts the control plane, and builds our programs.
    pub(crate) fn build(folder: &Path, seed: u64) -> Result<Self, String> {
        let agent = programs::debug_program(programs::AGENT)?;
        let pinfold = programs::debug_program(PINFOLD)?;
        let cluster = stage::Stage::build(folder)?;
        let rbac = workspace().join("deploy/agent/rbac.yaml");
        cluster.admin.create(&rbac)?;
        let token = cluster.admin.token("pinfold-agent")?;
        let kubeconfig = cluster
            .plane
            .kubeconfig("agent", &Credentials::Token(&token))?;
        Ok(Self {
            seed,
            recorder: Recorder::new(),
            agent,
            pinfold,
            kubeconfig,
            cluster,
        })
    }

    /// Starts an agent on a played machine, and waits until it answers. A second one of the same name continues with the
    /// journal of the first.
    pub(crate) fn agent(&self, played: &Played<'_>) -> Result<Agent, String> {
        let folder = self.plane.folder().join("agents").join(played.name);
        let machine = self.machine(played.name, played.shape)?;
        let kubelet = folder.join("kubelet");
        fs::create_dir_all(&kubelet).map_err(|error| format!("{}: {error}", kubelet.display()))?;
        let mut more = "cgroups: {directWrites: never}".to_owned();
        if !played.kubernetes.is_null() {
            let mut kubernetes = played.kubernetes.clone();
            kubernetes["kubeconfig"] = json!(self.kubeconfig);
            more += &format!("\nnodeName: {}\nkubernetes: {kubernetes}", played.name);
        }
        let setup = Setup {
            mode: played.mode,
            dialect: played.dialect,
            rules: played.rules.to_owned(),
            state: folder.join("state"),
            nri: "none".into(),
            machine: Some(machine),
            more,
        };
        let mut agent = Agent::spawn(&self.agent, &setup, &folder)?;
        agent.wait_until_it_answers()?;
        Ok(agent)
    }

    /// Writes the files of a played machine; their folder.
    pub(crate) fn machine(&self, name: &str, shape: Shape) -> Result<PathBuf, String> {
        let folder = self.plane.folder().join("agents").join(name);
        let machine = folder.join("machine");
        pretend::write(&machine, &shape.description())?;
        Ok(machine)
    }

    /// The kubelet's files of a played machine in mode `mirror`.
    pub(crate) fn kubelet_folder(&self, name: &str) -> PathBuf {
        self.plane
            .folder()
            .join("agents")
            .join(name)
            .join("kubelet")
    }

    /// The report of a node, once it is there.
    pub(crate) fn report(&self, node: &str) -> Result<Value, String> {
        eventually(&format!("{node} is reported"), || {
            self.admin
                .expect("GET", &format!("{TOPOLOGIES}/{node}"), None)
        })
    }

    /// Deletes all reports, and waits until they are gone.
    pub(crate) fn clear_reports(&self) -> Result<(), String> {
        self.admin.expect("DELETE", TOPOLOGIES, None)?;
        eventually("the reports are gone", || {
            let list = self.admin.expect("GET", TOPOLOGIES, None)?;
            match list["items"].as_array() {
                Some(left) if !left.is_empty() => Err(format!("{} are left", left.len())),
                _ => Ok(()),
            }
        })
    }

    /// Every object of these lists, with its kind: what a scheduler sees, and what the command line reads.
    pub(crate) fn state(&self, lists: &[(&str, &str, &str)]) -> Result<Value, String> {
        let mut items = Vec::new();
        for (path, version, kind) in lists {
            let mut list = self.admin.expect("GET", path, None)?;
            for object in list["items"].as_array_mut().ok_or("no list")? {
                object["apiVersion"] = (*version).into();
                object["kind"] = (*kind).into();
                if let Some(meta) = object["metadata"].as_object_mut() {
                    meta.remove("managedFields");
                }
                items.push(object.take());
            }
        }
        Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
    }
}
