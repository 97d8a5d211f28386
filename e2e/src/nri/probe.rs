//! A plugin on a thread of this process: rejects, answers at length, and remembers.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nri::api::{
    Container, ContainerAdjustment, ContainerUpdate, CreateContainerResponse, Events, PodSandbox,
};
use nri::{EventError, Handle, Identity, Plugin, Runner, SessionError};

/// How long a pod's annotation is that the probe answers with another of that length to.
pub(crate) const LARGE: usize = 1 << 20;

#[derive(Default)]
struct Seen {
    order: Vec<String>,
    large: Vec<usize>,
}

/// The running plugin.
pub(crate) struct Probe {
    pub(crate) handle: Handle,
    seen: Arc<Mutex<Seen>>,
    thread: JoinHandle<Result<(), SessionError>>,
}

impl Probe {
    pub(crate) fn start(socket: &Path) -> Result<Self, String> {
        let identity = Identity::new("probe", 50).map_err(|error| error.to_string())?;
        let runner = Runner::new(identity).socket(socket);
        let handle = runner.handle();
        let seen = Arc::<Mutex<Seen>>::default();
        let mut recorder = Recorder(Arc::clone(&seen));
        let thread = std::thread::spawn(move || runner.run(&mut recorder));
        Ok(Probe {
            handle,
            seen,
            thread,
        })
    }

    /// The events of pods annotated with `order`.
    pub(crate) fn order(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.order.clone()
    }

    /// How long the annotations of containers of pods annotated with `large` were together.
    pub(crate) fn large(&self) -> Vec<usize> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.large.clone()
    }

    pub(crate) fn stop(self) -> Result<(), String> {
        self.handle.stop();
        match self.thread.join() {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err("the probe panicked".to_owned()),
        }
    }
}

struct Recorder(Arc<Mutex<Seen>>);

impl Recorder {
    fn saw(
        &self,
        event: &str,
        pod: &PodSandbox,
        container: Option<&Container>,
    ) -> Result<(), EventError> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pod.annotations.contains_key("order") {
            seen.order.push(event.to_owned());
        }
        if let (Some(own), Some(container)) = (pod.annotations.get("large"), container) {
            let added = container.annotations.get("answer").map_or(0, String::len);
            seen.large.push(own.len() + added);
        }
        Ok(())
    }
}

impl Plugin for Recorder {
    fn events(&self) -> Events {
        Events::ALL
    }

    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.saw("run", pod, None)
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.saw("stop-pod", pod, None)
    }

    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.saw("remove-pod", pod, None)
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, EventError> {
        self.saw("create", pod, Some(container))?;
        if pod.annotations.contains_key("reject") {
            return Err(EventError::new("rejected by the probe"));
        }
        Ok(match pod.annotations.contains_key("large") {
            true => ContainerAdjustment::new()
                .annotation("answer", "y".repeat(LARGE))
                .into(),
            false => CreateContainerResponse::default(),
        })
    }

    fn post_create_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.saw("post-create", pod, Some(c))
    }

    fn start_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.saw("start", pod, Some(c))
    }

    fn post_start_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.saw("post-start", pod, Some(c))
    }

    fn stop_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        self.saw("stop", pod, Some(container))?;
        Ok(Vec::new())
    }

    fn remove_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.saw("remove", pod, Some(c))
    }
}
