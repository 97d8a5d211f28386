//! [`PodResourcesClient`]: calls the pod resources API of a kubelet or another agent.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kubelet_api::pod_resources as api;
use tonic::{Response, Status};

/// The longest response: the kubelet's limit.
const MAX_RESPONSE: usize = 16 * 1024 * 1024;

/// A blocking client. Every call opens its own connection and has a timeout.
#[derive(Clone, Debug)]
pub struct PodResourcesClient {
    socket: PathBuf,
    timeout: Duration,
}

/// Errors of calling the pod resources API.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    /// No connection to the socket.
    #[error("connect to {}: {error}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// No response in time.
    #[error("{} did not answer within {timeout:?}", socket.display())]
    TimedOut {
        /// The socket.
        socket: PathBuf,
        /// The timeout.
        timeout: Duration,
    },
    /// The response is an error or too long.
    #[error("{} answered: {message}", socket.display())]
    Failed {
        /// The socket.
        socket: PathBuf,
        /// The server's message.
        message: String,
    },
}

impl PodResourcesClient {
    /// A client of the API at `socket`, with a timeout for each call.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>, timeout: Duration) -> Self {
        let socket = socket.into();
        Self { socket, timeout }
    }

    /// Whether the socket exists. A server need not listen on it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.socket.exists()
    }

    /// Calls `List`: the resources of all pods.
    ///
    /// # Errors
    /// If the call fails.
    pub fn list(&self) -> Result<Vec<api::PodResources>, PodResourcesError> {
        let response =
            self.call(async |mut client| client.list(api::ListPodResourcesRequest {}).await);
        response.map(|response| response.pod_resources)
    }

    /// Calls `GetAllocatableResources`: the node's allocatable resources.
    ///
    /// # Errors
    /// If the call fails.
    pub fn allocatable(&self) -> Result<api::AllocatableResourcesResponse, PodResourcesError> {
        self.call(async |mut client| {
            let request = api::AllocatableResourcesRequest {};
            client.get_allocatable_resources(request).await
        })
    }

    /// Calls `Get`: the resources of one pod.
    ///
    /// # Errors
    /// If the call fails, also because there is no such pod.
    pub fn get(&self, namespace: &str, name: &str) -> Result<api::PodResources, PodResourcesError> {
        let request = api::GetPodResourcesRequest {
            pod_name: name.to_owned(),
            pod_namespace: namespace.to_owned(),
        };
        let response = self.call(async |mut client| client.get(request).await);
        response.map(|response| response.pod_resources.unwrap_or_default())
    }

    fn call<T>(
        &self,
        request: impl AsyncFnOnce(api::PodResourcesListerClient) -> Result<Response<T>, Status>,
    ) -> Result<T, PodResourcesError> {
        let socket = || self.socket.clone();
        let unreachable = |error| PodResourcesError::Connect {
            socket: socket(),
            error,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(unreachable)?;
        let response = async {
            let channel = kubelet_api::unix::connect(&self.socket).await;
            let channel = channel.map_err(unreachable)?;
            let client = api::PodResourcesListerClient::new(channel).max_message(MAX_RESPONSE);
            let response = request(client)
                .await
                .map_err(|status| PodResourcesError::Failed {
                    socket: socket(),
                    message: status.message().to_owned(),
                })?;
            Ok(response.into_inner())
        };
        let response =
            runtime.block_on(async { tokio::time::timeout(self.timeout, response).await });
        response.unwrap_or_else(|_| {
            Err(PodResourcesError::TimedOut {
                socket: socket(),
                timeout: self.timeout,
            })
        })
    }
}
