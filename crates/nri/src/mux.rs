//! Multiplexes two connections over one trunk, a unix stream socket.
//!
//! The protocol has no frames to open, close or acknowledge connections. Both sides use the same two
//! connections, frames of other connections are dropped, and closing the trunk closes both.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::frame::{ConnectionId, FrameDecoder, TrunkFrameError, frames};
use crate::message::{Message, MessageDecoder, MessageError};

/// Timeout of writes to the runtime.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of the read buffer in bytes.
const CHUNK: usize = 64 << 10;

/// Errors of a trunk. The peer closing it between two messages is not an error.
#[derive(Debug, Error)]
pub enum TrunkError {
    /// The peer sent an invalid frame.
    #[error(transparent)]
    Frame(#[from] TrunkFrameError),
    /// The peer sent an invalid message.
    #[error("on connection {}: {problem}", .connection.0)]
    Message {
        /// The connection.
        connection: ConnectionId,
        /// The decoding error.
        problem: MessageError,
    },
    /// The peer closed the trunk in the middle of a message.
    #[error("the runtime closed the connection in the middle of a message")]
    Truncated,
    /// The socket could not be read.
    #[error("cannot read from the runtime: {0}")]
    Read(#[source] io::Error),
    /// The socket could not be written to, or the write timed out.
    #[error("cannot write to the runtime: {0}")]
    Write(#[source] io::Error),
}

/// Decodes the messages of both connections from the bytes of a trunk, without I/O.
#[derive(Debug, Default)]
pub struct Demultiplexer {
    frames: FrameDecoder,
    plugin: MessageDecoder,
    runtime: MessageDecoder,
    ready: VecDeque<(ConnectionId, Message)>,
}

impl Demultiplexer {
    /// Decodes bytes of the trunk.
    ///
    /// # Errors
    /// An invalid frame or message. The rest of the trunk cannot be decoded then.
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

    /// Removes the oldest complete message.
    pub fn pop(&mut self) -> Option<(ConnectionId, Message)> {
        self.ready.pop_front()
    }

    /// Whether no frame and no message is partly decoded.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.frames.is_between_frames()
            && self.plugin.is_between_messages()
            && self.runtime.is_between_messages()
    }
}

/// A connected socket. Any thread may send messages; one thread receives them.
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

    /// Sends one message. On failure the trunk is closed, because a part may have been sent.
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

    /// Closes the trunk for both sides; blocked reads and writes return.
    pub(crate) fn close(&self) {
        // Fails only if the peer closed it already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The receiving half. Only one may be in use.
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
    /// Waits for the next message; `None` if the peer closed the trunk between two messages.
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
