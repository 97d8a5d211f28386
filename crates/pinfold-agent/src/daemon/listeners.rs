//! [`Listeners`]: the sockets of the API, the probes and metrics, and the podresources API if no device host serves it.

use std::io;
use std::sync::Arc;
use std::thread;

use kubelet_api::unix::PeerLimits;
use pinfold_daemon::socket::{self, SocketFile};
use pinfold_devices::pod_resources::PodResourcesServer;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::AgentError;
use crate::config::AgentConfig;
use crate::http::{self, Agent, ApiRoutes, HttpLimits, ProbeHandler};
use crate::metrics::{Metrics, catalogue};

/// Maximum number of podresources clients, and of concurrent calls of each.
const READERS: (usize, usize) = (32, 8);

/// The metrics registry with the build info set.
pub(super) fn metrics() -> Arc<Metrics> {
    let metrics = crate::metrics::registry();
    let version = env!("CARGO_PKG_VERSION");
    metrics.set(&catalogue::BUILD_INFO, &[version], 1.0);
    Arc::new(metrics)
}

/// The open sockets and the thread that serves them. Dropping it closes them.
pub(super) struct Listeners {
    _files: Vec<SocketFile>,
    /// The address of probes and metrics, with the port that the kernel chose for port 0.
    pub(super) probes: Option<std::net::SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Listeners {
    /// Binds the configured sockets and serves them on a thread.
    pub(super) fn open(
        config: &AgentConfig,
        agent: &Arc<dyn Agent>,
        metrics: &Arc<Metrics>,
        pod_resources: Option<PodResourcesServer>,
    ) -> Result<Self, AgentError> {
        let mut files = Vec::new();
        let mut unix = |path: Option<&std::path::PathBuf>| -> Result<_, AgentError> {
            let Some(path) = path else {
                return Ok(None);
            };
            let (listener, file) = socket::bind(path)?;
            listener.set_nonblocking(true).map_err(AgentError::Thread)?;
            files.push(file);
            Ok(Some(listener))
        };
        let api = unix(config.api.socket.as_ref())?;
        let readers = match pod_resources {
            Some(pod_resources) => {
                unix(config.pod_resources.socket.as_ref())?.map(|at| (pod_resources, at))
            }
            None => None,
        };
        let port = |address: std::net::SocketAddr| {
            let failed = |error| AgentError::Port { address, error };
            let listener = std::net::TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Ok::<_, AgentError>(listener)
        };
        let tcp = config.metrics.listen.map(port).transpose()?;
        let probes = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let (stop, stopped) = oneshot::channel::<()>();
        let (agent, metrics) = (agent.clone(), metrics.clone());
        let serve = move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async move {
                if let Some(listener) = api {
                    let api = Arc::new(ApiRoutes::new(agent.clone(), metrics.clone()));
                    tokio::spawn(async move {
                        let listener = tokio::net::UnixListener::from_std(listener)?;
                        http::serve(listener, api, HttpLimits::default()).await
                    });
                }
                if let Some(listener) = tcp {
                    let probes = Arc::new(ProbeHandler::new(agent, metrics));
                    tokio::spawn(async move {
                        let listener = tokio::net::TcpListener::from_std(listener)?;
                        http::serve_probes(listener, probes, HttpLimits::default()).await
                    });
                }
                if let Some((pod_resources, listener)) = readers {
                    let peers = PeerLimits {
                        user: rustix::process::geteuid().as_raw(),
                        connections: READERS.0,
                        calls: READERS.1,
                    };
                    tokio::spawn(async move {
                        let listener = tokio::net::UnixListener::from_std(listener)?;
                        pod_resources.serve(listener, peers).await?;
                        Ok::<_, io::Error>(())
                    });
                }
                // Serves until the sender is dropped.
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new()
            .name("http".to_owned())
            .spawn(serve)
            .map_err(AgentError::Thread)?;
        Ok(Self {
            _files: files,
            probes,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
