//! Turns the runtime's requests into calls of a plugin's methods, and their results into answers.
//! No I/O: bytes in, bytes out.

use std::time::Duration;

use prost::Message;

use crate::api::{
    ConfigureRequest, ConfigureResponse, Container, ContainerRequest, CreateContainerRequest,
    Empty, Event, Events, PodSandbox, StateChangeEvent, StopContainerResponse, SynchronizeRequest,
    SynchronizeResponse, UpdateContainerRequest, UpdatePodSandboxRequest,
    ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
};
use crate::plugin::{Plugin, Rejection, RuntimeInfo};
use crate::ttrpc::{Code, Status};

/// The service that a plugin offers.
pub(crate) const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";

/// How many pods and containers a runtime may tell of at the beginning of a session.
const MAX_SYNCHRONIZED: usize = 1 << 16;

/// A [`SynchronizeRequest`] whose parts are not read yet. An empty container has two bytes on the
/// wire and hundreds in memory, so they are counted first.
#[derive(Clone, PartialEq, Message)]
struct Outline {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pods: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    containers: Vec<Vec<u8>>,
}

/// How far a session got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The runtime has not said anything yet.
    Registered,
    /// The runtime knows which events the plugin wants.
    Configured,
    /// The plugin knows everything that the runtime will tell it, and events arrive.
    Synchronized,
}

/// One session's requests.
pub(crate) struct Dispatcher<'a, P> {
    plugin: &'a mut P,
    phase: Phase,
    runtime: Option<RuntimeInfo>,
    gathered: SynchronizeRequest,
}

impl<'a, P: Plugin> Dispatcher<'a, P> {
    pub(crate) fn new(plugin: &'a mut P) -> Self {
        Dispatcher {
            plugin,
            phase: Phase::Registered,
            runtime: None,
            gathered: SynchronizeRequest::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn runtime(&self) -> Option<&RuntimeInfo> {
        self.runtime.as_ref()
    }

    /// Handles one request.
    pub(crate) fn handle(
        &mut self,
        service: &str,
        method: &str,
        payload: &[u8],
    ) -> Result<Vec<u8>, Status> {
        if service != PLUGIN_SERVICE {
            return Err(Status::new(
                Code::Unimplemented,
                format!("no service {service}"),
            ));
        }
        match method {
            "Configure" => self.configure(decode(payload)?),
            "Synchronize" => {
                let outline: Outline = decode(payload)?;
                self.make_room(outline.pods.len() + outline.containers.len())?;
                self.synchronize(decode(payload)?)
            }
            "Shutdown" => {
                self.plugin.shutdown();
                Ok(done())
            }
            "StateChange" => self.state_change(&decode(payload)?),
            "CreateContainer" => {
                let request: CreateContainerRequest = decode(payload)?;
                let (pod, container) = self.subjects(&request.pod, &request.container)?;
                let answer = self.plugin.create_container(pod, container);
                answer.map(encode).map_err(rejected)
            }
            "UpdateContainer" => {
                let request: UpdateContainerRequest = decode(payload)?;
                let (pod, container) = self.subjects(&request.pod, &request.container)?;
                let resources = request.linux_resources.unwrap_or_default();
                let answer = self.plugin.update_container(pod, container, &resources);
                answer.map(encode).map_err(rejected)
            }
            "StopContainer" => {
                let request: ContainerRequest = decode(payload)?;
                let (pod, container) = self.subjects(&request.pod, &request.container)?;
                let update = self.plugin.stop_container(pod, container);
                update
                    .map(|update| encode(StopContainerResponse { update }))
                    .map_err(rejected)
            }
            "UpdatePodSandbox" => {
                let request: UpdatePodSandboxRequest = decode(payload)?;
                let pod = self.pod(&request.pod)?;
                let overhead = request.overhead_linux_resources.unwrap_or_default();
                let resources = request.linux_resources.unwrap_or_default();
                answered(self.plugin.update_pod_sandbox(pod, &overhead, &resources))
            }
            "ValidateContainerAdjustment" => {
                let request: ValidateContainerAdjustmentRequest = decode(payload)?;
                self.subjects(&request.pod, &request.container)?;
                let verdict = self.plugin.validate_container_adjustment(&request);
                Ok(encode(ValidateContainerAdjustmentResponse {
                    reject: verdict.is_err(),
                    reason: verdict.err().map_or_else(String::new, |no| no.to_string()),
                }))
            }
            method => self.notice(method, payload),
        }
    }

    /// The requests whose answer holds nothing, which newer runtimes make one by one.
    fn notice(&mut self, method: &str, payload: &[u8]) -> Result<Vec<u8>, Status> {
        let event = match method {
            "RunPodSandbox" => Event::RunPodSandbox,
            "PostUpdatePodSandbox" => Event::PostUpdatePodSandbox,
            "StopPodSandbox" => Event::StopPodSandbox,
            "RemovePodSandbox" => Event::RemovePodSandbox,
            "PostCreateContainer" => Event::PostCreateContainer,
            "StartContainer" => Event::StartContainer,
            "PostStartContainer" => Event::PostStartContainer,
            "PostUpdateContainer" => Event::PostUpdateContainer,
            "RemoveContainer" => Event::RemoveContainer,
            _ => {
                let problem = format!("no method {method}");
                return Err(Status::new(Code::Unimplemented, problem));
            }
        };
        // A request about a pod alone reads as one about a container that is missing.
        let request: ContainerRequest = decode(payload)?;
        self.state_change(&StateChangeEvent {
            event: event.into(),
            pod: request.pod,
            container: request.container,
        })
    }

    /// The same events as older runtimes send them.
    fn state_change(&mut self, change: &StateChangeEvent) -> Result<Vec<u8>, Status> {
        let event = change.event();
        let about_a_pod = [
            Event::RunPodSandbox,
            Event::StopPodSandbox,
            Event::RemovePodSandbox,
            Event::PostUpdatePodSandbox,
        ];
        if about_a_pod.contains(&event) {
            let pod = self.pod(&change.pod)?;
            return answered(match event {
                Event::RunPodSandbox => self.plugin.run_pod_sandbox(pod),
                Event::StopPodSandbox => self.plugin.stop_pod_sandbox(pod),
                Event::RemovePodSandbox => self.plugin.remove_pod_sandbox(pod),
                _ => self.plugin.post_update_pod_sandbox(pod),
            });
        }
        let (pod, container) = match event {
            Event::PostCreateContainer
            | Event::StartContainer
            | Event::PostStartContainer
            | Event::PostUpdateContainer
            | Event::RemoveContainer => self.subjects(&change.pod, &change.container)?,
            // One that is not known here, or one whose answer says something: nobody waits for it.
            _ => return Ok(done()),
        };
        answered(match event {
            Event::PostCreateContainer => self.plugin.post_create_container(pod, container),
            Event::StartContainer => self.plugin.start_container(pod, container),
            Event::PostStartContainer => self.plugin.post_start_container(pod, container),
            Event::PostUpdateContainer => self.plugin.post_update_container(pod, container),
            _ => self.plugin.remove_container(pod, container),
        })
    }

    fn configure(&mut self, request: ConfigureRequest) -> Result<Vec<u8>, Status> {
        if self.phase != Phase::Registered {
            return Err(not_now("configured already"));
        }
        let events = known_events(&request);
        let timeout = u64::try_from(request.request_timeout).unwrap_or(0);
        let runtime = RuntimeInfo {
            name: request.runtime_name,
            version: request.runtime_version,
            nri_version: request.nri_version,
            config: request.config,
            request_timeout: (timeout > 0).then(|| Duration::from_millis(timeout)),
            events,
        };
        self.plugin.configure(&runtime).map_err(rejected)?;
        self.runtime = Some(runtime);
        let wanted = self.plugin.events().and(events);
        if wanted.is_empty() {
            // Zero on the wire would mean all of them.
            let problem = "this runtime knows none of the events that the plugin wants";
            return Err(Status::new(Code::FailedPrecondition, problem));
        }
        self.phase = Phase::Configured;
        Ok(encode(ConfigureResponse {
            events: wanted.mask(),
        }))
    }

    /// Rejects more pods and containers than a node can have.
    fn make_room(&self, count: usize) -> Result<(), Status> {
        let gathered = self.gathered.pods.len() + self.gathered.containers.len();
        if gathered + count > MAX_SYNCHRONIZED {
            let problem = format!("more than {MAX_SYNCHRONIZED} pods and containers");
            return Err(Status::new(Code::ResourceExhausted, problem));
        }
        Ok(())
    }

    fn synchronize(&mut self, request: SynchronizeRequest) -> Result<Vec<u8>, Status> {
        if self.phase == Phase::Registered {
            return Err(not_now("not configured yet"));
        }
        let more = request.more;
        self.gathered.pods.extend(request.pods);
        self.gathered.containers.extend(request.containers);
        let mut update = Vec::new();
        if !more {
            let all = std::mem::take(&mut self.gathered);
            let answer = self.plugin.synchronize(all.pods, all.containers);
            update = answer.map_err(rejected)?;
            self.phase = Phase::Synchronized;
        }
        Ok(encode(SynchronizeResponse { update, more }))
    }

    /// The pod an event is about, if events may arrive at all.
    fn pod<'r>(&mut self, pod: &'r Option<PodSandbox>) -> Result<&'r PodSandbox, Status> {
        let part = !self.gathered.pods.is_empty() || !self.gathered.containers.is_empty();
        match self.phase {
            Phase::Registered => return Err(not_now("not configured yet")),
            Phase::Configured if part => return Err(not_now("not synchronized yet")),
            // Before NRI 0.8 plugins that the runtime starts itself are never synchronized.
            Phase::Configured | Phase::Synchronized => self.phase = Phase::Synchronized,
        }
        let missing = || Status::new(Code::InvalidArgument, "the pod is missing");
        pod.as_ref().ok_or_else(missing)
    }

    /// The pod and the container an event is about, if events may arrive at all.
    fn subjects<'r>(
        &mut self,
        pod: &'r Option<PodSandbox>,
        container: &'r Option<Container>,
    ) -> Result<(&'r PodSandbox, &'r Container), Status> {
        let pod = self.pod(pod)?;
        let missing = || Status::new(Code::InvalidArgument, "the container is missing");
        Ok((pod, container.as_ref().ok_or_else(missing)?))
    }
}

/// The events a runtime knows. It says so from NRI 0.12 on by telling its version at all; events
/// beyond the eleventh came with NRI 0.10, which containerd has since 2.2 and CRI-O since 1.34.
fn known_events(runtime: &ConfigureRequest) -> Events {
    let newer = match runtime.runtime_name.as_str() {
        _ if !runtime.nri_version.is_empty() => true,
        "containerd" => release(&runtime.runtime_version) >= (2, 2),
        "cri-o" => release(&runtime.runtime_version) >= (1, 34),
        _ => false,
    };
    match newer {
        true => Events::ALL,
        false => Events::SINCE_THE_BEGINNING,
    }
}

/// The first two numbers of a version, zero where there is none.
fn release(version: &str) -> (u64, u64) {
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (number(), number())
}

fn decode<M: Message + Default>(payload: &[u8]) -> Result<M, Status> {
    M::decode(payload).map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))
}

#[expect(clippy::needless_pass_by_value, reason = "answers are made to be sent")]
fn encode(answer: impl Message) -> Vec<u8> {
    answer.encode_to_vec()
}

/// The answer that says nothing.
fn done() -> Vec<u8> {
    encode(Empty {})
}

fn answered(outcome: Result<(), Rejection>) -> Result<Vec<u8>, Status> {
    outcome.map(|()| done()).map_err(rejected)
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
fn rejected(rejection: Rejection) -> Status {
    Status::new(Code::Unknown, rejection.reason())
}

fn not_now(why: &str) -> Status {
    Status::new(Code::FailedPrecondition, why)
}

/// Reads a payload as the request of every method; for fuzzing and tests.
#[doc(hidden)]
pub fn handle_in_a_new_session(plugin: &mut impl Plugin, method: &str, payload: &[u8]) {
    let mut dispatcher = Dispatcher::new(plugin);
    dispatcher.phase = Phase::Synchronized;
    // Whatever the answer: it must be one.
    let _ = dispatcher.handle(PLUGIN_SERVICE, method, payload);
}
