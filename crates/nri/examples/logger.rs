//! Prints every event that the runtime sends to its plugins.
//!
//! ```console
//! # cargo run --example logger -- /var/run/nri/nri.sock
//! connected to containerd v2.2.1
//! CreateContainer default/web nginx
//! ```
//!
//! The socket may be left out. Needs the rights of the runtime, as a rule those of root.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "that is the point of it"
)]

use std::error::Error;
use std::thread;
use std::time::Duration;

use nri::api::{
    Container, ContainerUpdate, CreateContainerResponse, Events, LinuxResources, PodSandbox,
    UpdateContainerResponse,
};
use nri::{ConnectionState, DEFAULT_SOCKET, EventError, Handle, Identity, Plugin, Runner};

struct Logger;

fn print(event: &str, pod: &PodSandbox, container: Option<&Container>) {
    let container = container.map_or("", |container| &container.name);
    println!("{event} {}/{} {container}", pod.namespace, pod.name);
}

impl Plugin for Logger {
    fn events(&self) -> Events {
        Events::ALL
    }

    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        println!(
            "Synchronize {} pods, {} containers",
            pods.len(),
            containers.len()
        );
        Ok(Vec::new())
    }

    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        print("RunPodSandbox", pod, None);
        Ok(())
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        print("StopPodSandbox", pod, None);
        Ok(())
    }

    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        print("RemovePodSandbox", pod, None);
        Ok(())
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, EventError> {
        print("CreateContainer", pod, Some(container));
        Ok(CreateContainerResponse::default())
    }

    fn post_create_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        print("PostCreateContainer", pod, Some(c));
        Ok(())
    }

    fn start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        print("StartContainer", pod, Some(container));
        Ok(())
    }

    fn post_start_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        print("PostStartContainer", pod, Some(c));
        Ok(())
    }

    fn update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> Result<UpdateContainerResponse, EventError> {
        print("UpdateContainer", pod, Some(container));
        println!("  to {resources:?}");
        Ok(UpdateContainerResponse::default())
    }

    fn post_update_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        print("PostUpdateContainer", pod, Some(c));
        Ok(())
    }

    fn stop_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        print("StopContainer", pod, Some(container));
        Ok(Vec::new())
    }

    fn remove_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        print("RemoveContainer", pod, Some(container));
        Ok(())
    }
}

/// Prints changes of the connection state.
fn watch(handle: &Handle) {
    let mut last = ConnectionState::Idle;
    while last != ConnectionState::Stopped {
        let state = handle.wait_for(Duration::MAX, |state| *state != last);
        match &state {
            ConnectionState::Connected { runtime } => {
                println!("connected to {} {}", runtime.name, runtime.version);
            }
            ConnectionState::Waiting { problem, delay, .. } => {
                eprintln!("{problem}; next try in {delay:?}");
            }
            ConnectionState::Idle
            | ConnectionState::Connecting { .. }
            | ConnectionState::Stopped => {}
        }
        last = state;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1);
    let runner = Runner::from_environment(Identity::new("logger", 90)?)?
        .socket(socket.unwrap_or_else(|| DEFAULT_SOCKET.to_owned()));
    let handle = runner.handle();
    thread::spawn(move || watch(&handle));
    Ok(runner.run(&mut Logger)?)
}
