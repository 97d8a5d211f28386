//! [`EngineClient`]: calls of the engine without kube-scheduler.

use std::path::Path;

use pinfold_scheduler::engine::wire::{
    ConnectRequest, EngineCallsClient, PreFilterReply, PreFilterRequest, VERSION, WirePod,
};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tonic::Status;

/// The number of this scheduler.
const SCHEDULER: u64 = 7;

/// A connection to an engine.
pub(crate) struct EngineClient {
    runtime: Runtime,
    calls: EngineCallsClient,
}

impl EngineClient {
    /// Connects, and starts no session yet.
    pub(crate) fn new(socket: &Path) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let channel = runtime.block_on(kubelet_api::unix::connect(socket));
        let channel = channel.map_err(|error| format!("{}: {error}", socket.display()))?;
        let calls = EngineCallsClient::new(channel);
        Ok(Self { runtime, calls })
    }

    /// Starts a session with this protocol version.
    pub(crate) fn connect(&mut self, version: u32) -> Result<(), Status> {
        let request = ConnectRequest {
            version,
            scheduler: SCHEDULER,
            reservations: Vec::new(),
            dialects: None,
        };
        let reply = self.runtime.block_on(self.calls.connect(request));
        reply.map(drop)
    }

    /// Starts a session; waits until the engine has listed all pods for it.
    pub(crate) fn session(&mut self) -> Result<(), String> {
        super::stage::eventually("the session starts", || {
            self.connect(VERSION).map_err(|status| status.to_string())
        })
    }

    /// Evaluates a pod on all nodes.
    pub(crate) fn pre_filter(&mut self, pod: &Value) -> Result<PreFilterReply, Status> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let request = PreFilterRequest {
            scheduler: SCHEDULER,
            pod: Some(WirePod {
                uid: text(&pod["metadata"]["uid"]),
                resource_version: text(&pod["metadata"]["resourceVersion"]),
                json: pod.to_string().into_bytes(),
            }),
            nodes_generation: 0,
            pods_version: 0,
            nominated_node: String::new(),
        };
        let reply = self.runtime.block_on(self.calls.pre_filter(request));
        reply.map(tonic::Response::into_inner)
    }
}
