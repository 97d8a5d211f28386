//! A device plugin whose behaviour a test sets.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use kubelet_api::device_plugin::*;
use kubelet_api::unix::{self, PeerLimits};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status};

/// How the plugin behaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// Its first list.
    pub(crate) devices: Vec<Device>,
    pub(crate) options: DevicePluginOptions,
    /// Its preferred devices; a response without containers if `None`.
    pub(crate) preferences: Option<Vec<String>>,
    pub(crate) advice_takes: Duration,
    pub(crate) allocate_takes: Duration,
    /// The error of `Allocate`.
    pub(crate) allocate_fails: Option<&'static str>,
    pub(crate) allocate_answers_nothing: bool,
}

/// The receivers of `ListAndWatch`.
type Watchers = Arc<Mutex<Vec<mpsc::UnboundedSender<ListAndWatchResponse>>>>;

/// A running plugin. Dropping it ends its `ListAndWatch` streams.
pub(crate) struct Fake {
    lists: Watchers,
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Service {
    behaviour: Behaviour,
    lists: Watchers,
    heard: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn device(id: &str, health: &str, node: i64) -> Device {
    Device {
        id: id.to_owned(),
        health: health.to_owned(),
        topology: Some(TopologyInfo {
            nodes: vec![NumaNode { id: node }],
            socket: None,
        }),
    }
}

/// Registers at the socket in `directory`.
pub(crate) fn register(
    directory: &Path,
    version: &str,
    endpoint: &str,
    resource: &str,
) -> Result<(), Status> {
    let runtime = runtime();
    let socket = directory.join(KUBELET_SOCKET);
    runtime.block_on(async {
        let channel = unix::connect(socket).await?;
        let request = RegisterRequest {
            version: version.to_owned(),
            endpoint: endpoint.to_owned(),
            resource_name: resource.to_owned(),
            options: None,
        };
        RegistrationClient::new(channel).register(request).await?;
        Ok(())
    })
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

impl Fake {
    /// Listens on `endpoint` in `directory`, replacing an existing file.
    pub(crate) fn start(directory: &Path, endpoint: &str, behaviour: Behaviour) -> Self {
        let lists = Arc::default();
        let heard = Arc::default();
        let service = Service {
            behaviour,
            lists: Arc::clone(&lists),
            heard: Arc::clone(&heard),
        };
        let path = directory.join(endpoint);
        let _ = std::fs::remove_file(&path);
        let runtime = runtime();
        let handle = runtime.handle().clone();
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(path).expect("a socket")
        };
        let peers = PeerLimits {
            user: rustix::process::geteuid().as_raw(),
            connections: 8,
            calls: 8,
        };
        handle.spawn(unix::serve(
            listener,
            DevicePluginServer::new(service),
            peers,
        ));
        let (stop, mut stopped) = mpsc::channel::<()>(1);
        let thread = std::thread::spawn(move || {
            runtime.block_on(stopped.recv());
        });
        Self {
            lists,
            heard,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Sends another list of devices.
    pub(crate) fn list(&self, devices: &[Device]) {
        let lists = self.lists.lock().expect("no panic");
        assert!(!lists.is_empty(), "there is a watcher");
        for sender in lists.iter() {
            let devices = devices.to_vec();
            // A receiver may be gone.
            let _ = sender.send(ListAndWatchResponse { devices });
        }
    }

    /// The number of `ListAndWatch` streams.
    pub(crate) fn watchers(&self) -> usize {
        let lists = self.lists.lock().expect("no panic");
        lists.iter().filter(|sender| !sender.is_closed()).count()
    }

    /// Ends the `ListAndWatch` streams, but keeps answering calls.
    pub(crate) fn end_lists(&self) {
        self.lists.lock().expect("no panic").clear();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The device lists as a stream.
struct Lists(mpsc::UnboundedReceiver<ListAndWatchResponse>);

impl Stream for Lists {
    type Item = Result<ListAndWatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|list| list.map(Ok))
    }
}

impl Service {
    fn record_call(&self, what: String) {
        self.heard.lock().expect("no panic").push(what);
    }
}

impl DevicePlugin for Service {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(self.behaviour.options))
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<BoxStream<ListAndWatchResponse>>, Status> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let devices = self.behaviour.devices.clone();
        sender
            .send(ListAndWatchResponse { devices })
            .expect("just made");
        self.lists.lock().expect("no panic").push(sender);
        Ok(Response::new(Box::pin(Lists(receiver))))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let ask = &request.into_inner().container_requests[0];
        self.record_call(format!(
            "advise {} of {} with {}",
            ask.allocation_size,
            ask.available_device_ids.join(","),
            ask.must_include_device_ids.join(","),
        ));
        tokio::time::sleep(self.behaviour.advice_takes).await;
        let preferences = self.behaviour.preferences.clone();
        let container_responses =
            preferences.map(|device_ids| ContainerPreferredAllocationResponse { device_ids });
        Ok(Response::new(PreferredAllocationResponse {
            container_responses: container_responses.into_iter().collect(),
        }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let ids = request.into_inner().container_requests[0]
            .devices_ids
            .join(",");
        self.record_call(format!("allocate {ids}"));
        tokio::time::sleep(self.behaviour.allocate_takes).await;
        if let Some(words) = self.behaviour.allocate_fails {
            return Err(Status::internal(words));
        }
        let answer = ContainerAllocateResponse {
            envs: [("DEVICES".to_owned(), ids)].into(),
            ..ContainerAllocateResponse::default()
        };
        let is_silent = self.behaviour.allocate_answers_nothing;
        Ok(Response::new(AllocateResponse {
            container_responses: if is_silent { vec![] } else { vec![answer] },
        }))
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        let ids = request.into_inner().devices_ids.join(",");
        self.record_call(format!("start {ids}"));
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
