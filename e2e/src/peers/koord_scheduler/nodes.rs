//! [`Nodes`]: played machines with their agents and Node objects.

use std::fs;

use pinfold_core::cpu_set::CpuSet;
use pinfold_kube::state::CpuManagerState;
use pinfold_kube::state::cpu::CpuStateFormat;
use serde_json::{Value, json};

use super::process::KoordScheduler;
use super::random::Machine;
use crate::agent::process::Agent;
use crate::cluster::pods::PODS;
use crate::cluster::stage::eventually;
use crate::peers::stage::{Stage, TOPOLOGIES};
use crate::report::equal;

/// The annotation with reserved CPUs, of a Node and of its report.
pub(super) const RESERVATION: &str = "node.koordinator.sh/reservation";

/// The list of all reports, with version and kind.
const REPORTS: (&str, &str, &str) = (
    TOPOLOGIES,
    "topology.node.k8s.io/v1alpha1",
    "NodeResourceTopology",
);

/// Nodes with their agents, until they are cleared.
pub(super) struct Nodes {
    pub(super) machines: Vec<Machine>,
    pub(super) agents: Vec<Agent>,
}

impl Nodes {
    /// The machines of a round join the cluster, and koord-scheduler has read their reports.
    pub(super) fn join(
        stage: &Stage,
        koordinator: &KoordScheduler,
        machines: Vec<Machine>,
    ) -> Result<Self, String> {
        let mut agents = Vec::new();
        for machine in &machines {
            stage
                .admin
                .expect("POST", "/api/v1/nodes", Some(&machine.node()))?;
            if machine.is_kubelet_s() {
                kubelet_state(stage, machine)?;
            }
            agents.push(stage.agent(&machine.played())?);
        }
        let nodes = Self { machines, agents };
        nodes.known(stage, koordinator)?;
        Ok(nodes)
    }

    /// Waits until koord-scheduler has read the reports of all.
    pub(super) fn known(&self, stage: &Stage, koordinator: &KoordScheduler) -> Result<(), String> {
        for machine in &self.machines {
            let node = machine.node();
            let reservation = &node["metadata"]["annotations"][RESERVATION];
            // The agent reads the Node's annotations at intervals of `cgroups.checkInterval`.
            eventually("the report has the Node's reservation", || {
                let report = stage.report(&machine.name)?;
                let copied = &report["metadata"]["annotations"][RESERVATION];
                let expected = if reservation.is_string() {
                    reservation
                } else {
                    copied
                };
                equal("reservation", copied, expected)
            })?;
            eventually("koord-scheduler knows the node", || {
                let known = koordinator.node(&machine.name)?;
                let details = known["cpuTopology"]["cpuDetails"].as_object();
                let cpus = details.map_or(0, serde_json::Map::len);
                equal("CPUs", cpus, machine.shape.cpus() as usize)
            })?;
        }
        Ok(())
    }

    /// Everything that schedulers see.
    pub(super) fn state(&self, stage: &Stage) -> Result<Value, String> {
        stage.state(&[("/api/v1/nodes", "v1", "Node"), REPORTS])
    }

    /// The same with all pods.
    pub(super) fn state_with_pods(&self, stage: &Stage) -> Result<Value, String> {
        let pods = (PODS, "v1", "Pod");
        stage.state(&[("/api/v1/nodes", "v1", "Node"), REPORTS, pods])
    }

    /// All agents end as in a crash, and start again.
    pub(super) fn restart_agents(&mut self, stage: &Stage) -> Result<(), String> {
        for (agent, machine) in self.agents.iter_mut().zip(&self.machines) {
            agent.kill();
            *agent = stage.agent(&machine.played())?;
        }
        Ok(())
    }

    /// The kubelets report that they are alive, as they do all the time, and koord-scheduler has read it. It subtracts the
    /// reservations of Nodes that are there when it starts twice, until the next update of a Node.
    pub(super) fn alive(
        &self,
        stage: &Stage,
        koordinator: &KoordScheduler,
        second: u64,
    ) -> Result<(), String> {
        for machine in &self.machines {
            let path = format!("/api/v1/nodes/{}", machine.name);
            let ready = json!({
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "lastHeartbeatTime": format!("2026-01-01T00:00:{second:02}Z"),
            });
            let alive = json!({ "status": { "conditions": [ready] } });
            stage
                .admin
                .expect("PATCH", &format!("{path}/status"), Some(&alive))?;
            eventually("koord-scheduler has read the Node", || {
                let read = koordinator.node_info(&machine.name)?;
                let node = stage.admin.expect("GET", &path, None)?;
                let version = |node: &Value| node["metadata"]["resourceVersion"].clone();
                equal("resourceVersion", version(&read["node"]), version(&node))
            })?;
        }
        Ok(())
    }

    pub(super) fn leave(self, stage: &Stage) -> Result<(), String> {
        stage.clear_pods()?;
        drop(self.agents);
        for machine in self.machines {
            for path in ["/api/v1/nodes", TOPOLOGIES] {
                let path = format!("{path}/{}", machine.name);
                // The report may be collected already: its owner is the Node.
                stage.admin.ask("DELETE", &path, None)?;
            }
        }
        Ok(())
    }
}

/// The state file of a kubelet whose static CPU manager has assigned nothing.
fn kubelet_state(stage: &Stage, machine: &Machine) -> Result<(), String> {
    let folder = stage.kubelet_folder(&machine.name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let all = format!("0-{}", machine.shape.cpus() - 1);
    let state = CpuManagerState {
        policy: "static".to_owned(),
        default_cpus: CpuSet::parse(&all).map_err(|error| error.to_string())?,
        ..CpuManagerState::default()
    };
    let path = folder.join("cpu_manager_state");
    let written = fs::write(&path, state.write(CpuStateFormat::V2));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
