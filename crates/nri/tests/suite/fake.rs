//! A fake runtime that reads as strictly as the real ones.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nri::api::{
    ConfigureRequest, ConfigureResponse, Container, ContainerUpdate, CreateContainerResponse,
    Empty, Events, PodSandbox, RegisterPluginRequest, SynchronizeRequest, SynchronizeResponse,
    UpdateContainerResponse, ValidateContainerAdjustmentRequest,
};
use nri::ttrpc::{Request, Response, Status};
use nri::{EventError, Handle, Identity, Plugin, Runner, RuntimeInfo, SessionError};
use prost::Message;

const HEADER: usize = 10;

pub(crate) struct Runtime {
    pub(crate) stream: UnixStream,
    next: u32,
}

impl Runtime {
    pub(crate) fn on(stream: UnixStream) -> Self {
        Runtime { stream, next: 1 }
    }

    pub(crate) fn accept(listener: &UnixListener) -> Self {
        Runtime::on(listener.accept().unwrap().0)
    }

    fn frame(&mut self) -> (u32, Vec<u8>) {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).unwrap();
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        let mut payload = vec![0; usize::try_from(number(4)).unwrap()];
        self.stream.read_exact(&mut payload).unwrap();
        (number(0), payload)
    }

    /// Reads one message of a connection, which must have the frame sizes that real runtimes accept.
    fn message(&mut self, connection: u32) -> (u32, u8, Vec<u8>) {
        let (from, mut bytes) = self.frame();
        assert_eq!(from, connection);
        assert!(
            bytes.len() <= 4096,
            "a first frame of {} bytes",
            bytes.len()
        );
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let (length, stream) = (usize::try_from(number(0)).unwrap(), number(4));
        let (kind, flags) = (bytes[8], bytes[9]);
        assert_eq!(flags, 0);
        if bytes.len() < HEADER + length {
            let (from, rest) = self.frame();
            assert_eq!(from, connection);
            bytes.extend(rest);
        }
        assert_eq!(
            bytes.len(),
            HEADER + length,
            "frames end where messages end"
        );
        (stream, kind, bytes.split_off(HEADER))
    }

    pub(crate) fn send(&mut self, connection: u32, stream: u32, kind: u8, data: &[u8]) {
        let mut message = u32::try_from(data.len()).unwrap().to_be_bytes().to_vec();
        message.extend(stream.to_be_bytes());
        message.extend([kind, 0]);
        message.extend(data);
        for part in [
            &message[..message.len().min(4096)],
            &message[message.len().min(4096)..],
        ] {
            if !part.is_empty() {
                let length = u32::try_from(part.len()).unwrap();
                let header = [connection.to_be_bytes(), length.to_be_bytes()].concat();
                self.stream.write_all(&header).unwrap();
                self.stream.write_all(part).unwrap();
            }
        }
    }

    /// The plugin's next call, which must be this method.
    pub(crate) fn called<M: Message + Default>(&mut self, method: &str) -> (u32, M) {
        let (stream, kind, data) = self.message(2);
        assert_eq!((kind, stream % 2), (1, 1));
        let request = Request::decode(&*data).unwrap();
        assert_eq!(request.service, "nri.pkg.api.v1alpha1.Runtime");
        assert_eq!(request.method, method);
        assert!(request.timeout_nano > 0);
        (stream, M::decode(&*request.payload).unwrap())
    }

    pub(crate) fn answer(&mut self, stream: u32, outcome: Result<Vec<u8>, Status>) {
        let response = Response {
            status: outcome.as_ref().err().cloned(),
            payload: outcome.unwrap_or_default(),
        };
        self.send(2, stream, 2, &response.encode_to_vec());
    }

    /// Sends a request; [`Runtime::response`] reads its response.
    pub(crate) fn ask(&mut self, method: &str, request: &impl Message, timeout_nano: i64) -> u32 {
        let request = Request {
            service: "nri.pkg.api.v1alpha1.Plugin".to_owned(),
            method: method.to_owned(),
            payload: request.encode_to_vec(),
            timeout_nano,
            metadata: Vec::new(),
        };
        let stream = self.next;
        self.next += 2;
        self.send(1, stream, 1, &request.encode_to_vec());
        stream
    }

    pub(crate) fn response(&mut self) -> (u32, Result<Vec<u8>, Status>) {
        let (stream, kind, data) = self.message(1);
        assert_eq!(kind, 2);
        let response = Response::decode(&*data).unwrap();
        (stream, response.status.map_or(Ok(response.payload), Err))
    }

    pub(crate) fn call<A: Message + Default>(
        &mut self,
        method: &str,
        request: &impl Message,
    ) -> Result<A, Status> {
        let asked = self.ask(method, request, 2_000_000_000);
        let (stream, outcome) = self.response();
        assert_eq!(stream, asked);
        outcome.map(|payload| A::decode(&*payload).unwrap())
    }

    pub(crate) fn register(&mut self) -> RegisterPluginRequest {
        let (stream, request) = self.called("RegisterPlugin");
        self.answer(stream, Ok(Empty {}.encode_to_vec()));
        request
    }

    pub(crate) fn configure(&mut self, runtime: &str, version: &str) -> Result<i32, Status> {
        let request = ConfigureRequest {
            config: "setting = 1".to_owned(),
            runtime_name: runtime.to_owned(),
            runtime_version: version.to_owned(),
            request_timeout: 2000,
            ..ConfigureRequest::default()
        };
        self.call("Configure", &request)
            .map(|answer: ConfigureResponse| answer.events)
    }

    pub(crate) fn synchronize(&mut self, request: &SynchronizeRequest) -> SynchronizeResponse {
        self.call("Synchronize", request).unwrap()
    }

    /// Registers, configures and synchronizes the plugin.
    pub(crate) fn start(&mut self) {
        self.register();
        self.configure("containerd", "v2.2.1").unwrap();
        self.synchronize(&SynchronizeRequest::default());
    }
}

/// The answer of a test plugin to `CreateContainer`.
pub(crate) type OnCreate =
    Box<dyn FnMut(&PodSandbox, &Container) -> Result<CreateContainerResponse, EventError> + Send>;

/// A plugin that records its calls.
pub(crate) struct Recorder {
    pub(crate) wanted: Events,
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    pub(crate) updates: Vec<ContainerUpdate>,
    pub(crate) on_create: OnCreate,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            wanted: Events::ALL,
            seen: Arc::default(),
            updates: Vec::new(),
            on_create: Box::new(|_, _| Ok(CreateContainerResponse::default())),
        }
    }
}

impl Recorder {
    fn note(&self, what: &str, pod: &PodSandbox, container: Option<&Container>) {
        let container = container.map_or("", |container| &container.id);
        let mut seen = self.seen.lock().unwrap();
        seen.push(
            format!("{what} {} {container}", pod.id)
                .trim_end()
                .to_owned(),
        );
    }

    fn noted(&self, what: &str, pod: &PodSandbox, c: Option<&Container>) -> Result<(), EventError> {
        self.note(what, pod, c);
        match pod.name.as_str() {
            "rejected" => Err(EventError::new("no")),
            _ => Ok(()),
        }
    }
}

impl Plugin for Recorder {
    fn events(&self) -> Events {
        self.wanted
    }

    fn configure(&mut self, runtime: &RuntimeInfo) -> Result<(), EventError> {
        let note = format!("configure {} {}", runtime.name, runtime.config);
        self.seen.lock().unwrap().push(note);
        match runtime.name.as_str() {
            "unwanted" => Err(EventError::new("not with this runtime")),
            _ => Ok(()),
        }
    }

    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        let note = format!("synchronize {} {}", pods.len(), containers.len());
        self.seen.lock().unwrap().push(note);
        Ok(self.updates.clone())
    }

    fn shutdown(&mut self) {
        self.seen.lock().unwrap().push("shutdown".to_owned());
    }

    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.noted("run", pod, None)
    }

    fn update_pod_sandbox(
        &mut self,
        pod: &PodSandbox,
        _: &nri::api::LinuxResources,
        _: &nri::api::LinuxResources,
    ) -> Result<(), EventError> {
        self.noted("update-pod", pod, None)
    }

    fn post_update_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.noted("post-update-pod", pod, None)
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.noted("stop-pod", pod, None)
    }

    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        self.noted("remove-pod", pod, None)
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, EventError> {
        self.note("create", pod, Some(container));
        (self.on_create)(pod, container)
    }

    fn post_create_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.noted("post-create", pod, Some(c))
    }

    fn start_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.noted("start", pod, Some(c))
    }

    fn post_start_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.noted("post-start", pod, Some(c))
    }

    fn update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        _: &nri::api::LinuxResources,
    ) -> Result<UpdateContainerResponse, EventError> {
        self.note("update", pod, Some(container));
        Ok(self.updates.clone().into())
    }

    fn post_update_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.noted("post-update", pod, Some(c))
    }

    fn stop_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        self.note("stop", pod, Some(container));
        Ok(self.updates.clone())
    }

    fn remove_container(&mut self, pod: &PodSandbox, c: &Container) -> Result<(), EventError> {
        self.noted("remove", pod, Some(c))
    }

    fn validate_container_adjustment(
        &mut self,
        request: &ValidateContainerAdjustmentRequest,
    ) -> Result<(), EventError> {
        self.noted(
            "validate",
            request.pod.as_ref().unwrap(),
            request.container.as_ref(),
        )
    }
}

/// A plugin that runs on a thread of its own.
pub(crate) struct Running {
    pub(crate) handle: Handle,
    pub(crate) thread: JoinHandle<Result<(), SessionError>>,
}

impl Running {
    pub(crate) fn start(runner: Runner, mut plugin: Recorder) -> Self {
        let handle = runner.handle();
        let thread = std::thread::spawn(move || runner.run(&mut plugin));
        Running { handle, thread }
    }

    /// Waits until the plugin has stopped.
    pub(crate) fn end(self) -> Result<(), SessionError> {
        self.thread.join().unwrap()
    }
}

pub(crate) fn identity() -> Identity {
    Identity::new("recorder", 7).unwrap()
}

/// A plugin and a runtime on a socket of their own.
pub(crate) fn pair(plugin: Recorder) -> (Runtime, Running) {
    pair_with(plugin, |runner| runner)
}

pub(crate) fn pair_with(
    plugin: Recorder,
    with: impl FnOnce(Runner) -> Runner,
) -> (Runtime, Running) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let runner = with(Runner::new(identity()).stream(theirs));
    (Runtime::on(ours), Running::start(runner, plugin))
}

pub(crate) fn pod(id: &str) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        ..PodSandbox::default()
    }
}

pub(crate) fn container(id: &str) -> Container {
    Container {
        id: id.to_owned(),
        ..Container::default()
    }
}
