//! [`Readable`]: requests whatever authority they name.
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

pub use frames::{Broken, Frames};

/// How much is read at a time.
const CHUNK: usize = 8 * 1024;

/// A connection whose requests can be read whatever authority they name.
#[derive(Debug)]
pub struct Readable<S> {
    stream: S,
    frames: Frames,
    /// What waits to be read, and how much of it has been.
    waiting: Vec<u8>,
    taken: usize,
}

impl<S> Readable<S> {
    /// The server's side of a new connection.
    #[must_use]
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            waiting: Vec::new(),
            taken: 0,
        }
    }

    /// The connection itself.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Readable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.taken == this.waiting.len() {
            this.waiting.clear();
            this.taken = 0;
            let mut chunk = [0; CHUNK];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let passed = this.frames.pass(read.filled(), &mut this.waiting);
            passed.map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))?;
        }
        let waiting = &this.waiting[this.taken..];
        let count = waiting.len().min(into.remaining());
        into.put_slice(&waiting[..count]);
        this.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Readable<S> {
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
