//! Two connections over one trunk, a unix stream socket.
//!
//! The multiplexer has no frames to open, close or acknowledge anything. Both sides assume the
//! same connections, frames of any other are dropped, and the end of the trunk ends all.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::frame::{ConnectionId, FrameDecoder, FrameError, frames};
use crate::message::{Message, MessageDecoder, MessageError};

/// How long a runtime may take to read what is sent to it before it counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How much is read from a trunk at once.
const CHUNK: usize = 64 << 10;

/// Why a trunk ended, other than by its peer closing it between two messages.
#[derive(Debug, Error)]
pub enum TrunkError {
    /// The peer sent something that is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer sent something that is no message.
    #[error("on connection {}: {problem}", .connection.0)]
    Message {
        /// The connection.
        connection: ConnectionId,
        /// What is wrong with it.
        problem: MessageError,
    },
    /// The peer hung up in the middle of a message.
    #[error("the runtime hung up in the middle of a message")]
    Truncated,
    /// The socket could not be read.
    #[error("cannot read from the runtime: {0}")]
    Read(#[source] io::Error),
    /// The socket could not be written to, or the runtime did not read for too long.
    #[error("cannot write to the runtime: {0}")]
    Write(#[source] io::Error),
}

/// What both connections need to become messages again; no I/O of its own.
#[derive(Debug, Default)]
pub struct Demultiplexer {
    frames: FrameDecoder,
    plugin: MessageDecoder,
    runtime: MessageDecoder,
    ready: VecDeque<(ConnectionId, Message)>,
}

impl Demultiplexer {
    /// Takes in bytes of the trunk.
    ///
    /// # Errors
    /// Bytes that are no frame or no message. Nothing that follows makes sense then.
    pub fn feed(&mut self, mut input: &[u8]) -> Result<(), TrunkError> {
        while let Some(piece) = self.frames.next(&mut input)? {
            let connection = piece.connection;
            let decoder = match connection {
                ConnectionId::PLUGIN => &mut self.plugin,
                ConnectionId::RUNTIME => &mut self.runtime,
                _ => continue,
            };
            let mut bytes = piece.bytes;
            while let Some(message) =
                decoder
                    .next(&mut bytes)
                    .map_err(|problem| TrunkError::Message {
                        connection,
                        problem,
                    })?
            {
                self.ready.push_back((connection, message));
            }
        }
        Ok(())
    }

    /// The oldest message that is complete.
    pub fn pop(&mut self) -> Option<(ConnectionId, Message)> {
        self.ready.pop_front()
    }

    /// Whether the bytes so far end where a frame and a message of every connection end.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.frames.is_between_frames()
            && self.plugin.is_between_messages()
            && self.runtime.is_between_messages()
    }
}

/// A connected socket that any thread may write messages to and one reads from.
#[derive(Debug)]
pub(crate) struct Trunk {
    stream: UnixStream,
    writing: Mutex<()>,
}

impl Trunk {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Trunk {
            stream,
            writing: Mutex::new(()),
        })
    }

    /// Sends one message. A trunk on which that failed is closed, for the peer may have got a part.
    pub(crate) fn send(
        &self,
        connection: ConnectionId,
        message: &Message,
    ) -> Result<(), TrunkError> {
        let bytes = frames(connection, &message.encode());
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.stream).write_all(&bytes).map_err(|error| {
            self.close();
            TrunkError::Write(error)
        })
    }

    /// Ends the trunk for both sides; whoever waits for it wakes up.
    pub(crate) fn close(&self) {
        // Fails only if the peer was faster.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The receiving half. There should be one.
    pub(crate) fn receiver(&self) -> Receiver<'_> {
        Receiver {
            stream: &self.stream,
            demultiplexer: Demultiplexer::default(),
            chunk: vec![0; CHUNK],
        }
    }
}

/// Reads messages from a trunk.
pub(crate) struct Receiver<'a> {
    stream: &'a UnixStream,
    demultiplexer: Demultiplexer,
    chunk: Vec<u8>,
}

impl Receiver<'_> {
    /// Waits for the next message; `None` when the peer hung up between two.
    pub(crate) fn receive(&mut self) -> Result<Option<(ConnectionId, Message)>, TrunkError> {
        loop {
            if let Some(message) = self.demultiplexer.pop() {
                return Ok(Some(message));
            }
            let count = match self.stream.read(&mut self.chunk) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                Err(error) => return Err(TrunkError::Read(error)),
            };
            match self.chunk.get(..count) {
                Some(bytes) if !bytes.is_empty() => self.demultiplexer.feed(bytes)?,
                _ if self.demultiplexer.is_between_messages() => return Ok(None),
                _ => return Err(TrunkError::Truncated),
            }
        }
    }
}
