//! [`AuthorityStream`]: requests whatever authority they name.
//!
//! An HTTP/2 request names an authority. Clients on unix sockets have none to name; many name the path of the
//! socket, percent-encoded (`%2Fvar%2Flib%2F...`) or not. That is no valid authority, and HTTP/2 libraries that
//! read it as one reset such requests; the kubelet's own never looks at it. So the bytes that a client sends pass
//! through here first: header blocks are decoded, an authority that cannot be read becomes `localhost`, and the
//! block is written again. Everything else passes as it is.
//!
//! ```text
//! client ──► frames ──► HEADERS, CONTINUATION ──► hpack::Decoder ──► :authority ──► literals ──► HTTP/2 library
//!                └───── all others, untouched ──────────────────────────────────────────────►
//! ```
//!
//! The client's compression ends here: what is written again uses no table, so that there is none to be kept in
//! step. A client that breaks the rules of frames or of compression loses its connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

mod frames;
mod hpack;
mod huffman;

pub use frames::{FrameError, FrameRewriter};

/// How much is read at a time.
const CHUNK: usize = 8 * 1024;
/// How much of it is looked at before the server gets what came of it. Compressed headers can make much of little, so
/// a peer must not be able to have a whole chunk of them unpacked at once.
const PIECE: usize = 64;
/// How much may wait before the server reads on.
const ENOUGH: usize = 16 * 1024;

/// A connection whose requests can be read whatever authority they name.
#[derive(Debug)]
pub struct AuthorityStream<S> {
    stream: S,
    frames: FrameRewriter,
    /// What came, and is still to be looked at.
    unseen: Queue,
    /// What waits to be read.
    waiting: Queue,
}

/// Bytes, of which some have been taken.
#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    taken: usize,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// The next bytes, at most `count`.
    fn take(&mut self, count: usize) -> &[u8] {
        let rest = &self.bytes[self.taken..];
        let next = &rest[..count.min(rest.len())];
        self.taken += next.len();
        next
    }
}

impl<S> AuthorityStream<S> {
    /// The server's side of a new connection.
    #[must_use]
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            frames: FrameRewriter::default(),
            unseen: Queue::default(),
            waiting: Queue::default(),
        }
    }

    /// The connection itself.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for AuthorityStream<S> {
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
