//! Decodes the runtime's requests, calls the plugin's methods, and encodes the responses. No I/O.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use prost::Message;

use crate::api::{
    ConfigureRequest, ConfigureResponse, Container, ContainerRequest, CreateContainerRequest,
    Empty, Event, Events, PodSandbox, StateChangeEvent, StopContainerResponse, SynchronizeRequest,
    SynchronizeResponse, UpdateContainerRequest, UpdatePodSandboxRequest,
    ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
};
use crate::plugin::{EventError, Plugin, RuntimeInfo};
use crate::ttrpc::{Code, Status};

/// Name of the plugin's service.
pub(crate) const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";

/// Maximum number of pods and containers in the `Synchronize` requests of a session.
const MAX_SYNCHRONIZED: usize = 1 << 16;

/// A [`SynchronizeRequest`] with undecoded pods and containers, to count them before decoding: an
/// empty container has two bytes on the wire and hundreds in memory.
#[derive(Clone, PartialEq, Message)]
struct Outline {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pods: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    containers: Vec<Vec<u8>>,
}

/// The phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SessionPhase {
    /// The plugin is registered and waits for `Configure`.
    Registered,
    /// The plugin is configured and waits for `Synchronize`.
    Configured,
    /// The plugin is synchronized; events arrive.
    Synchronized,
}

/// Handles the requests of one session.
pub(crate) struct Dispatcher<'a, P> {
    plugin: &'a mut P,
    phase: SessionPhase,
    runtime: Option<RuntimeInfo>,
    received: SynchronizeRequest,
}

impl<'a, P: Plugin> Dispatcher<'a, P> {
    pub(crate) fn new(plugin: &'a mut P) -> Self {
        Dispatcher {
            plugin,
            phase: SessionPhase::Registered,
            runtime: None,
            received: SynchronizeRequest::default(),
        }
    }

    pub(crate) fn phase(&self) -> SessionPhase {
        self.phase
    }

    pub(crate) fn runtime(&self) -> Option<&RuntimeInfo> {
        self.runtime.as_ref()
    }

    /// Handles one request and returns the encoded response. A panic of the plugin fails this request only: without the
    /// plugin, the runtime would start all further containers unchanged.
    pub(crate) fn handle(
        &mut self,
        service: &str,
        method: &str,
        payload: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let dispatch = AssertUnwindSafe(|| self.dispatch(service, method, payload));
        catch_unwind(dispatch).unwrap_or_else(|_| {
            let error = format!("the plugin panicked while it handled {method}");
            Err(Status::new(Code::Internal, error))
        })
    }

    fn dispatch(&mut self, service: &str, method: &str, payload: &[u8]) -> Result<Vec<u8>, Status> {
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
                self.check_count(outline.pods.len() + outline.containers.len())?;
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
            method => self.notify(method, payload),
        }
    }

    /// Handles requests with an empty response, which newer runtimes send as separate methods.
    fn notify(&mut self, method: &str, payload: &[u8]) -> Result<Vec<u8>, Status> {
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
        // A request with a pod alone decodes as one without a container.
        let request: ContainerRequest = decode(payload)?;
        self.state_change(&StateChangeEvent {
            event: event.into(),
            pod: request.pod,
            container: request.container,
        })
    }

    /// Handles the same events in the format of older runtimes.
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
            // Unknown events, and events that have methods of their own: the runtime expects no result.
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
        if self.phase != SessionPhase::Registered {
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
            // An empty set would subscribe to all events.
            let problem = "the runtime supports none of the events that the plugin subscribes to";
            return Err(Status::new(Code::FailedPrecondition, problem));
        }
        self.phase = SessionPhase::Configured;
        Ok(encode(ConfigureResponse {
            events: wanted.mask(),
        }))
    }

    /// Rejects more pods and containers than [`MAX_SYNCHRONIZED`].
    fn check_count(&self, count: usize) -> Result<(), Status> {
        let received = self.received.pods.len() + self.received.containers.len();
        if received + count > MAX_SYNCHRONIZED {
            let problem = format!("more than {MAX_SYNCHRONIZED} pods and containers");
            return Err(Status::new(Code::ResourceExhausted, problem));
        }
        Ok(())
    }

    fn synchronize(&mut self, request: SynchronizeRequest) -> Result<Vec<u8>, Status> {
        if self.phase == SessionPhase::Registered {
            return Err(not_now("not configured yet"));
        }
        let more = request.more;
        self.received.pods.extend(request.pods);
        self.received.containers.extend(request.containers);
        let mut update = Vec::new();
        if !more {
            let all = std::mem::take(&mut self.received);
            let answer = self.plugin.synchronize(all.pods, all.containers);
            update = answer.map_err(rejected)?;
            self.phase = SessionPhase::Synchronized;
        }
        Ok(encode(SynchronizeResponse { update, more }))
    }

    /// The pod of an event; an error if the phase allows no events.
    fn pod<'r>(&mut self, pod: &'r Option<PodSandbox>) -> Result<&'r PodSandbox, Status> {
        let part = !self.received.pods.is_empty() || !self.received.containers.is_empty();
        match self.phase {
            SessionPhase::Registered => return Err(not_now("not configured yet")),
            SessionPhase::Configured if part => return Err(not_now("not synchronized yet")),
            // Before NRI 0.8 the runtime does not synchronize plugins that it started.
            SessionPhase::Configured | SessionPhase::Synchronized => {
                self.phase = SessionPhase::Synchronized;
            }
        }
        let missing = || Status::new(Code::InvalidArgument, "the pod is missing");
        pod.as_ref().ok_or_else(missing)
    }

    /// The pod and container of an event; an error if the phase allows no events.
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

/// The events that a runtime supports. Events beyond the eleventh were added in NRI 0.10, which
/// containerd has since 2.2. CRI-O 1.34 has a version shortly before it, without the validation of
/// adjustments. Runtimes send their NRI version since NRI 0.12.
fn known_events(runtime: &ConfigureRequest) -> Events {
    let release = release(&runtime.runtime_version);
    match runtime.runtime_name.as_str() {
        _ if !runtime.nri_version.is_empty() => Events::ALL,
        "containerd" if release >= (2, 2) => Events::ALL,
        "cri-o" if release >= (1, 34) => {
            Events::ALL.without(Event::ValidateContainerAdjustment.into())
        }
        _ => Events::SINCE_THE_BEGINNING,
    }
}

/// Major and minor version; 0 where missing.
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

/// The empty response.
fn done() -> Vec<u8> {
    encode(Empty {})
}

fn answered(outcome: Result<(), EventError>) -> Result<Vec<u8>, Status> {
    outcome.map(|()| done()).map_err(rejected)
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
fn rejected(rejection: EventError) -> Status {
    Status::new(Code::Unknown, rejection.reason())
}

fn not_now(why: &str) -> Status {
    Status::new(Code::FailedPrecondition, why)
}

/// Handles a request in a synchronized session, for fuzzing and tests.
#[doc(hidden)]
pub fn handle_in_a_new_session(plugin: &mut impl Plugin, method: &str, payload: &[u8]) {
    let mut dispatcher = Dispatcher::new(plugin);
    dispatcher.phase = SessionPhase::Synchronized;
    // Any result is fine; it must not panic.
    let _ = dispatcher.handle(PLUGIN_SERVICE, method, payload);
}
