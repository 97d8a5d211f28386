//! [`Stage`]: a container runtime, room for agents, and the machine's control groups.

use std::fs;
use std::path::{Path, PathBuf};

use super::kernel::Groups;
use super::process::{Agent, Setup};
use super::programs;
use crate::container_runtime::ContainerRuntime;
use crate::containerd::Containerd;
use crate::containerd::cri::Cri;
use crate::programs::{AGENT, PINFOLD};

/// What all scenarios use.
pub(crate) struct Stage {
    pub(crate) runtime: Box<dyn ContainerRuntime>,
    pub(crate) cri: Cri,
    pub(crate) groups: Groups,
    /// `pinfold`, which asks an agent.
    pub(crate) pinfold: PathBuf,
    /// `pinfold-agent`.
    pub(crate) agent_program: PathBuf,
    pub(crate) programs: PathBuf,
    folder: PathBuf,
    made: u32,
}

impl Stage {
    /// Starts the runtime.
    pub(crate) fn set(folder_of_programs: &Path, folder: &Path) -> Result<Self, String> {
        let (runtime, version) = programs::runtime(folder_of_programs)?;
        let (containerd, cri) = Containerd::start(runtime, version, folder)?;
        Ok(Self::with(
            Box::new(containerd),
            cri,
            folder_of_programs,
            folder,
        ))
    }

    /// With a runtime that answers.
    pub(crate) fn with(
        runtime: Box<dyn ContainerRuntime>,
        cri: Cri,
        folder_of_programs: &Path,
        folder: &Path,
    ) -> Self {
        Self {
            runtime,
            cri,
            groups: Groups::find(),
            pinfold: folder_of_programs.join(PINFOLD),
            agent_program: folder_of_programs.join(AGENT),
            programs: folder_of_programs.to_owned(),
            folder: folder.to_owned(),
            made: 0,
        }
    }

    /// An unused folder.
    pub(crate) fn fresh(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.join(format!("agent-{}", self.made))
    }

    /// How an agent is set up that begins with nothing in this folder.
    pub(crate) fn setup(&self, folder: &Path, rules: &str) -> Setup {
        Setup {
            mode: "manage",
            dialect: "kubelet",
            rules: rules.to_owned(),
            state: folder.join("state"),
            nri: self.runtime.nri_socket(),
            machine: None,
            more: "cgroups: {checkInterval: 1s}".to_owned(),
        }
    }

    /// Starts an agent and waits until it is connected.
    pub(crate) fn agent(&self, setup: &Setup, folder: &Path) -> Result<Agent, String> {
        let mut agent = Agent::spawn(&self.agent_program, setup, folder)?;
        agent.wait_until_connected()?;
        Ok(agent)
    }
}

/// The last lines of a log, for people.
pub(crate) fn end_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
