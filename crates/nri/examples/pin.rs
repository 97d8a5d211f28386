//! Pins containers to the CPUs and memory nodes in annotations of their pods:
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     cpus.pin.example: "4-7"       # for every container of the pod
//!     cpus.pin.example/web: "4"     # for the container named web
//!     mems.pin.example: "1"
//! ```
//!
//! Containers that run already when the plugin connects are updated. Later updates of the kubelet
//! do not change their CPUs.
//!
//! ```console
//! # cargo run --example pin -- /var/run/nri/nri.sock
//! ```
//!
//! The socket may be left out. Copied to the runtime's plugin directory as `10-pin`, the program is
//! started by the runtime itself.

#![allow(clippy::print_stderr, reason = "a plugin's log")]

use std::collections::BTreeMap;
use std::error::Error;

use nri::api::{
    Container, ContainerAdjustment, ContainerState, ContainerUpdate, CreateContainerResponse,
    Event, Events, LinuxResources, PodSandbox, UpdateContainerResponse,
};
use nri::{DEFAULT_SOCKET, EventError, Identity, Plugin, Runner};

/// The plugin has no state: everything is in the annotations.
struct Pin;

/// The annotation for a container; one with its name has precedence over the one for the whole pod.
fn wish<'a>(what: &str, pod: &'a PodSandbox, container: &Container) -> Option<&'a str> {
    let own = format!("{what}.pin.example/{}", container.name);
    let all = format!("{what}.pin.example");
    let value = pod.annotations.get(&own);
    let value = value.or_else(|| pod.annotations.get(&all));
    value.map(String::as_str)
}

/// The resources in the annotations; `None` if there are none.
fn wishes(pod: &PodSandbox, container: &Container) -> Option<LinuxResources> {
    let cpus = wish("cpus", pod, container);
    let mems = wish("mems", pod, container);
    let any = cpus.is_some() || mems.is_some();
    any.then(|| {
        LinuxResources::new()
            .cpus(cpus.unwrap_or_default())
            .mems(mems.unwrap_or_default())
    })
}

fn log(container: &Container, resources: &LinuxResources) {
    if let Some(cpu) = &resources.cpu {
        eprintln!(
            "{}: CPUs {:?}, memory nodes {:?}",
            container.id, cpu.cpus, cpu.mems
        );
    }
}

impl Plugin for Pin {
    fn events(&self) -> Events {
        Events::of(&[Event::CreateContainer, Event::UpdateContainer])
    }

    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        let pods: BTreeMap<&str, &PodSandbox> =
            pods.iter().map(|pod| (pod.id.as_str(), pod)).collect();
        let alive = |container: &&Container| {
            let state = container.state();
            state == ContainerState::Running || state == ContainerState::Created
        };
        let update = |container: &Container| {
            let pod = pods.get(container.pod_sandbox_id.as_str())?;
            let resources = wishes(pod, container)?;
            log(container, &resources);
            let update = ContainerUpdate::new(&container.id).resources(|_| resources);
            // It may end this very moment, which is no reason to leave the others alone.
            Some(update.ignore_failure())
        };
        Ok(containers.iter().filter(alive).filter_map(update).collect())
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, EventError> {
        let Some(resources) = wishes(pod, container) else {
            return Ok(CreateContainerResponse::default());
        };
        log(container, &resources);
        Ok(ContainerAdjustment::new()
            .resources(|_| resources)
            .env("PINNED", "yes")
            .into())
    }

    fn update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        _wanted: &LinuxResources,
    ) -> Result<UpdateContainerResponse, EventError> {
        let update = wishes(pod, container)
            .map(|resources| ContainerUpdate::new(&container.id).resources(|_| resources));
        Ok(update.into_iter().collect::<Vec<_>>().into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1);
    let runner = Runner::from_environment(Identity::new("pin", 10)?)?
        .socket(socket.unwrap_or_else(|| DEFAULT_SOCKET.to_owned()));
    Ok(runner.run(&mut Pin)?)
}
