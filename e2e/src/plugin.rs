//! A device plugin on our own gRPC server, for machines without Python: `e2e device-plugin DIRECTORY RESOURCE DEVICE...`.
//!
//! A device is ID:HEALTH:NODE. Every line on standard input is a new list of devices, `fail` (Allocate fails from now on)
//! or `work`. It registers again whenever the kubelet's socket is another file, as `scripts/plugin.py` does.

use std::fs;
use std::io::{self, BufRead};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use kubelet_api::device_plugin::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePlugin, DevicePluginOptions,
    DevicePluginServer, DeviceSpec, Empty, KUBELET_SOCKET, ListAndWatchResponse, Mount, NumaNode,
    PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, RegisterRequest, RegistrationClient, TopologyInfo, VERSION,
};
use kubelet_api::unix::{self, PeerLimits};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::report::say;

/// The name of its socket.
const ENDPOINT: &str = "e2e.sock";
/// The variable with the folder that it wants mounted.
pub(crate) const FOLDER: &str = "PLUGIN_FOLDER";
/// The variable that is `none` if the plugin has no preferred devices.
const PREFERENCE: &str = "PLUGIN_PREFERENCE";

/// Serves until standard input ends.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [directory, resource, devices @ ..] = words else {
        return Err("expected DIRECTORY RESOURCE DEVICE...".to_owned());
    };
    let directory = PathBuf::from(directory);
    let state = Arc::new(Mutex::new(State {
        devices: read(devices)?,
        ..State::default()
    }));
    let input = Arc::clone(&state);
    thread::spawn(move || {
        if let Err(problem) = follow_input(&input) {
            say(format_args!("problem: {problem}"));
        }
        std::process::exit(0);
    });
    // The socket of an earlier process of this plugin.
    let _ = fs::remove_file(directory.join(ENDPOINT));
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let mut registered = None;
    loop {
        let socket = identity(&directory.join(KUBELET_SOCKET));
        if socket.is_some() && socket != registered {
            registered = socket;
            // A kubelet that starts removes the sockets of the plugins.
            if !directory.join(ENDPOINT).exists() {
                serve(&runtime, &directory, &state)?;
            }
            match runtime.block_on(register(&directory, resource)) {
                Ok(()) => say("registered"),
                Err(status) => say(format_args!("rejected {}", status.message())),
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Device, file and change time of a socket; none if it does not exist.
fn identity(path: &Path) -> Option<(u64, u64, i64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime_nsec()))
}

fn serve(runtime: &Runtime, directory: &Path, state: &Arc<Mutex<State>>) -> Result<(), String> {
    let path = directory.join(ENDPOINT);
    let listener = {
        let _inside = runtime.enter();
        UnixListener::bind(&path).map_err(|error| format!("{}: {error}", path.display()))?
    };
    let peers = PeerLimits {
        user: 0,
        connections: 8,
        calls: 8,
    };
    let service = DevicePluginServer::new(Service(Arc::clone(state)));
    runtime.spawn(unix::serve(listener, service, peers));
    Ok(())
}

async fn register(directory: &Path, resource: &str) -> Result<(), Status> {
    let channel = unix::connect(directory.join(KUBELET_SOCKET)).await?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: ENDPOINT.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    RegistrationClient::new(channel).register(request).await?;
    Ok(())
}

/// Devices from words `ID:HEALTH:NODE`.
fn read<T: AsRef<str>>(words: &[T]) -> Result<Vec<Device>, String> {
    let device = |word: &str| {
        let mut parts = word.split(':');
        let (id, health, node) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Device {
            id: id.to_owned(),
            health: health.to_owned(),
            topology: Some(TopologyInfo {
                nodes: vec![NumaNode {
                    id: node.parse().ok()?,
                }],
                socket: None,
            }),
        })
    };
    let devices = words.iter().map(|word| {
        let word = word.as_ref();
        device(word).ok_or_else(|| format!("{word}: expected ID:HEALTH:NODE"))
    });
    devices.collect()
}

fn follow_input(state: &Mutex<State>) -> Result<(), String> {
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        match line.as_str() {
            "fail" | "work" => {
                lock(state).is_failing = line == "fail";
                say(format_args!("done {line}"));
            }
            _ => {
                let devices = read(&line.split_whitespace().collect::<Vec<_>>())?;
                let mut state = lock(state);
                state.devices.clone_from(&devices);
                state.watchers.retain(|watcher| {
                    let devices = devices.clone();
                    watcher.send(ListAndWatchResponse { devices }).is_ok()
                });
            }
        }
    }
    Ok(())
}

/// What the service and the input share.
#[derive(Default)]
struct State {
    devices: Vec<Device>,
    watchers: Vec<mpsc::UnboundedSender<ListAndWatchResponse>>,
    is_failing: bool,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Service(Arc<Mutex<State>>);

/// The lists of devices as a stream.
struct Lists(mpsc::UnboundedReceiver<ListAndWatchResponse>);

impl Stream for Lists {
    type Item = Result<ListAndWatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|list| list.map(Ok))
    }
}

impl DevicePlugin for Service {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions {
            pre_start_required: true,
            get_preferred_allocation_available: std::env::var(PREFERENCE).as_deref() != Ok("none"),
        }))
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<BoxStream<ListAndWatchResponse>>, Status> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = lock(&self.0);
        let devices = state.devices.clone();
        let _ = sender.send(ListAndWatchResponse { devices });
        state.watchers.push(sender);
        Ok(Response::new(Box::pin(Lists(receiver))))
    }

    /// The last of the available devices, with those that must be included.
    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let requests = request.into_inner().container_requests;
        let preferred = requests.into_iter().map(|one| {
            let mut device_ids = one.must_include_device_ids;
            let mut others = one.available_device_ids;
            others.retain(|id| !device_ids.contains(id));
            others.sort_unstable();
            let size = usize::try_from(one.allocation_size).unwrap_or(0);
            let missing = size.saturating_sub(device_ids.len());
            device_ids.extend(others.into_iter().rev().take(missing));
            ContainerPreferredAllocationResponse { device_ids }
        });
        Ok(Response::new(PreferredAllocationResponse {
            container_responses: preferred.collect(),
        }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        if lock(&self.0).is_failing {
            return Err(Status::internal("out of order"));
        }
        let folder = std::env::var(FOLDER).unwrap_or_default();
        let requests = request.into_inner().container_requests;
        let responses = requests.into_iter().map(|one| {
            let mut ids = one.devices_ids;
            ids.sort_unstable();
            ContainerAllocateResponse {
                envs: [("PLUGIN_DEVICES".to_owned(), ids.join(","))].into(),
                mounts: vec![Mount {
                    container_path: "/usr/lib/plugin".to_owned(),
                    host_path: folder.clone(),
                    read_only: true,
                }],
                devices: vec![DeviceSpec {
                    container_path: "/dev/plugin0".to_owned(),
                    host_path: "/dev/null".to_owned(),
                    permissions: "rw".to_owned(),
                }],
                ..ContainerAllocateResponse::default()
            }
        });
        Ok(Response::new(AllocateResponse {
            container_responses: responses.collect(),
        }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
