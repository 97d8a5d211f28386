//! Servers and clients on unix sockets.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint, Server};

use crate::authority::AuthorityStream;

/// Interval and timeout of HTTP/2 keep-alive pings to an idle peer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Timeout of a connection attempt: the kubelet's for plugins.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the socket at `path`.
///
/// # Errors
/// If no server listens there, or the connection takes longer than [`CONNECT_TIMEOUT`].
pub async fn connect(path: impl AsRef<Path>) -> io::Result<Channel> {
    let path = path.as_ref();
    let text = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    let endpoint = Endpoint::from_shared(format!("unix://{text}")).map_err(io::Error::other)?;
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect()).await;
    connected
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        .map_err(io::Error::other)
}

/// The user who may connect to a server, and limits of connections and calls.
#[derive(Clone, Copy, Debug)]
pub struct PeerLimits {
    /// The user who may connect besides root; usually the server's own.
    pub user: u32,
    /// Limit of concurrent connections. Further ones are closed at once.
    pub connections: usize,
    /// Limit of concurrent calls on one connection. Further ones wait.
    pub calls: usize,
}

/// Serves one service until the socket fails or the future is dropped. Open connections continue until they are closed
/// or the runtime is dropped.
///
/// # Errors
/// If connections can no longer be accepted.
pub async fn serve<S>(listener: UnixListener, service: S, peers: PeerLimits) -> io::Result<()>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let incoming = AcceptedConnections {
        listener,
        peers,
        permits: Arc::new(Semaphore::new(peers.connections)),
    };
    Server::builder()
        .concurrency_limit_per_connection(peers.calls)
        .max_concurrent_streams(u32::try_from(peers.calls).unwrap_or(u32::MAX))
        .http2_keepalive_interval(Some(KEEP_ALIVE.0))
        .http2_keepalive_timeout(Some(KEEP_ALIVE.1))
        .serve_with_incoming(service, incoming)
        .await
        .map_err(io::Error::other)
}

/// Accepted connections of permitted users.
struct AcceptedConnections {
    listener: UnixListener,
    peers: PeerLimits,
    permits: Arc<Semaphore>,
}

impl Stream for AcceptedConnections {
    /// A connection counts towards the limit until it is dropped.
    type Item = io::Result<AuthorityStream<UnixStream, OwnedSemaphorePermit>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let (stream, _) = match ready!(self.listener.poll_accept(context)) {
                Ok(accepted) => accepted,
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            let is_welcome = stream
                .peer_cred()
                .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == self.peers.user);
            if !is_welcome {
                continue;
            }
            if let Ok(permit) = self.permits.clone().try_acquire_owned() {
                return Poll::Ready(Some(Ok(AuthorityStream::new(stream, permit))));
            }
        }
    }
}
