//! [`Reader`]: asks a kubelet, or another agent, which pod holds what.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kubelet_api::pod_resources as api;
use tonic::{Response, Status};

/// The longest answer: what the kubelet sends at most.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Asks at a socket. Every question is a connection of its own and waits for a bounded time.
#[derive(Clone, Debug)]
pub struct Reader {
    socket: PathBuf,
    limit: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nobody listens at the socket.
    #[error("connect to {}: {error}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What came of it.
        #[source]
        error: io::Error,
    },
    /// It took too long.
    #[error("{} did not answer within {limit:?}", socket.display())]
    TimedOut {
        /// The socket.
        socket: PathBuf,
        /// The time it had.
        limit: Duration,
    },
    /// The answer is an error, or too long, or no answer at all.
    #[error("{} answered: {message}", socket.display())]
    Failed {
        /// The socket.
        socket: PathBuf,
        /// What it said.
        message: String,
    },
}

impl Reader {
    /// Asks at `socket`, each time at most for `limit`.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>, limit: Duration) -> Self {
        let socket = socket.into();
        Self { socket, limit }
    }

    /// Whether there is a socket to ask at. Nobody need listen there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.socket.exists()
    }

    /// All pods.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn list(&self) -> Result<Vec<api::PodResources>, ReadError> {
        let answer =
            self.ask(async |mut client| client.list(api::ListPodResourcesRequest {}).await);
        answer.map(|answer| answer.pod_resources)
    }

    /// What the node could give if nobody held anything.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn allocatable(&self) -> Result<api::AllocatableResourcesResponse, ReadError> {
        self.ask(async |mut client| {
            let request = api::AllocatableResourcesRequest {};
            client.get_allocatable_resources(request).await
        })
    }

    /// One pod.
    ///
    /// # Errors
    /// If there is no answer; the kubelet says so too if there is no such pod.
    pub fn get(&self, namespace: &str, name: &str) -> Result<api::PodResources, ReadError> {
        let request = api::GetPodResourcesRequest {
            pod_name: name.to_owned(),
            pod_namespace: namespace.to_owned(),
        };
        let answer = self.ask(async |mut client| client.get(request).await);
        answer.map(|answer| answer.pod_resources.unwrap_or_default())
    }

    fn ask<T>(
        &self,
        question: impl AsyncFnOnce(api::PodResourcesListerClient) -> Result<Response<T>, Status>,
    ) -> Result<T, ReadError> {
        let socket = || self.socket.clone();
        let unreachable = |error| ReadError::Connect {
            socket: socket(),
            error,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(unreachable)?;
        let asked = async {
            let channel = kubelet_api::unix::connect(&self.socket).await;
            let channel = channel.map_err(unreachable)?;
            let client = api::PodResourcesListerClient::new(channel).max_message(MAX_ANSWER);
            let answer = question(client).await.map_err(|status| ReadError::Failed {
                socket: socket(),
                message: status.message().to_owned(),
            })?;
            Ok(answer.into_inner())
        };
        let answer = runtime.block_on(async { tokio::time::timeout(self.limit, asked).await });
        answer.unwrap_or_else(|_| {
            Err(ReadError::TimedOut {
                socket: socket(),
                limit: self.limit,
            })
        })
    }
}
