//! [`AuthorityStream`]: accepts HTTP/2 requests with any `:authority`.
//!
//! An HTTP/2 request names an authority. Clients on unix sockets have none; many send the path of the socket,
//! percent-encoded (`%2Fvar%2Flib%2F...`) or not. That is not a valid authority, and HTTP/2 libraries that parse it
//! reset such requests; the kubelet's library does not parse it. So this stream rewrites the bytes of the client:
//! header blocks are decoded, an invalid authority is replaced by `localhost`, and the block is encoded again. All
//! other frames are unchanged.
//!
//! ```text
//! client ──► frames ──► HEADERS, CONTINUATION ──► HpackDecoder ──► :authority ──► literals ──► HTTP/2 library
//!                └───── all others, unchanged ─────────────────────────────────────────────►
//! ```
//!
//! The encoded blocks do not use the compression table, so that no table has to be kept in sync with the server. A
//! client that violates the rules of frames or of compression loses its connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

mod frames;
mod hpack;
mod huffman;

pub use frames::{FrameError, FrameRewriter};

/// Bytes read from the client at a time.
const CHUNK: usize = 8 * 1024;
/// Bytes rewritten before the server reads the result. Compressed headers can expand a lot, so a peer must not be able
/// to have a whole chunk of them decompressed at once.
const PIECE: usize = 64;
/// Limit of the rewritten bytes that the server has not read yet.
const ENOUGH: usize = 16 * 1024;

/// A connection whose requests may have any authority, with a `guard` that lives as long as it.
#[derive(Debug)]
pub struct AuthorityStream<S, G> {
    stream: S,
    _guard: G,
    frames: FrameRewriter,
    /// Bytes from the client that are not rewritten yet.
    unseen: Queue,
    /// Rewritten bytes that the server has not read yet.
    waiting: Queue,
}

/// A byte buffer that is consumed from the front.
#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    taken: usize,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Consumes the next bytes, at most `count`.
    fn take(&mut self, count: usize) -> &[u8] {
        let rest = &self.bytes[self.taken..];
        let next = &rest[..count.min(rest.len())];
        self.taken += next.len();
        next
    }
}

impl<S, G> AuthorityStream<S, G> {
    /// Wraps the server's side of a new connection.
    #[must_use]
    pub fn new(stream: S, guard: G) -> Self {
        Self {
            stream,
            _guard: guard,
            frames: FrameRewriter::default(),
            unseen: Queue::default(),
            waiting: Queue::default(),
        }
    }
}

impl<S: Connected, G> Connected for AuthorityStream<S, G> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin, G: Unpin> AsyncRead for AuthorityStream<S, G> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.waiting.is_empty() {
            if this.unseen.is_empty() {
                let mut chunk = [0; CHUNK];
                let mut read = ReadBuf::new(&mut chunk);
                ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
                if read.filled().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.unseen = Queue::default();
                this.unseen.bytes.extend_from_slice(read.filled());
            }
            this.waiting = Queue::default();
            let waiting = &mut this.waiting.bytes;
            while waiting.len() < ENOUGH && !this.unseen.is_empty() {
                let passed = this.frames.pass(this.unseen.take(PIECE), waiting);
                passed.map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))?;
            }
        }
        into.put_slice(this.waiting.take(into.remaining()));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, G: Unpin> AsyncWrite for AuthorityStream<S, G> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
