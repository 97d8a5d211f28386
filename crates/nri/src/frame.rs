//! The multiplexer's frames, as a pure codec: bytes in, pieces of connections out.
//!
//! ```text
//! offset 0   u32 big endian   connection
//! offset 4   u32 big endian   length n of the payload
//! offset 8   n bytes          a piece of that connection's byte stream
//! ```
//!
//! A receiver need not care where frames begin and end: payloads of one connection, put end to
//! end, are its byte stream. A *sender* must care, because of how runtimes read:
//!
//! 1. A frame holds bytes of one message only, and a frame that begins a message at most
//!    [`FIRST_FRAME`] bytes: runtimes read through a buffer of that size, and fail if a frame is
//!    larger than what is left of it.
//! 2. The rest must not be cut small: runtimes queue 256 frames and hang up on the next.
//!
//! So every message is sent as one frame or two: the first 4096 bytes, then all the rest.

use thiserror::Error;

/// The bytes before a frame's payload.
pub const FRAME_HEADER: usize = 8;

/// The most a frame that begins a message may hold.
pub const FIRST_FRAME: usize = 4096;

/// The most any frame may hold: a message of the greatest size with its header.
pub const MAX_PAYLOAD: usize = crate::message::MESSAGE_HEADER + crate::message::MAX_DATA;

/// One of the connections that share a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// Where the runtime calls the plugin.
    pub const PLUGIN: ConnectionId = ConnectionId(1);
    /// Where the plugin calls the runtime.
    pub const RUNTIME: ConnectionId = ConnectionId(2);
}

/// Why bytes are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The payload would be larger than any message.
    #[error("a frame of connection {} claims {length} bytes, more than {MAX_PAYLOAD}", .connection.0)]
    TooLong {
        /// The connection it is for.
        connection: ConnectionId,
        /// The length its header claims.
        length: u32,
    },
}

/// Payload bytes of a connection, as many of them as have arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Its next bytes; never empty.
    pub bytes: &'a [u8],
}

/// Takes frames apart, however their bytes arrive. Holds no payload, so it needs no memory.
#[derive(Clone, Debug, Default)]
pub struct FrameDecoder {
    header: [u8; FRAME_HEADER],
    filled: usize,
    connection: u32,
    remaining: usize,
}

impl FrameDecoder {
    /// The next piece of the input, which it is taken from; `None` when the input is used up.
    ///
    /// # Errors
    /// A header that claims too long a payload. Nothing that follows makes sense then.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, FrameError> {
        while !input.is_empty() {
            if self.remaining > 0 {
                let (bytes, rest) = input.split_at(self.remaining.min(input.len()));
                *input = rest;
                self.remaining -= bytes.len();
                let connection = ConnectionId(self.connection);
                return Ok(Some(Piece { connection, bytes }));
            }
            self.filled += fill(&mut self.header, self.filled, input);
            if self.filled == FRAME_HEADER {
                self.filled = 0;
                let (connection, length) = two_numbers(&self.header);
                self.connection = connection;
                self.remaining = checked_length(connection, length)?;
            }
        }
        Ok(None)
    }

    /// Whether the bytes so far end where a frame ends.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.filled == 0 && self.remaining == 0
    }
}

fn checked_length(connection: u32, length: u32) -> Result<usize, FrameError> {
    match usize::try_from(length) {
        Ok(length) if length <= MAX_PAYLOAD => Ok(length),
        _ => Err(FrameError::TooLong {
            connection: ConnectionId(connection),
            length,
        }),
    }
}

/// Moves bytes from the input to where `target` is filled up to; says how many.
pub(crate) fn fill(target: &mut [u8], filled: usize, input: &mut &[u8]) -> usize {
    let space = target.get_mut(filled..).unwrap_or_default();
    let count = space.len().min(input.len());
    let (taken, rest) = input.split_at(count);
    space[..count].copy_from_slice(taken);
    *input = rest;
    count
}

/// The two big-endian numbers that begin both kinds of headers.
pub(crate) fn two_numbers(header: &[u8]) -> (u32, u32) {
    let number = |at: usize| {
        let bytes = header.iter().skip(at).take(4);
        bytes.fold(0, |sum, &byte| sum << 8 | u32::from(byte))
    };
    (number(0), number(4))
}

/// The frames of one whole message, in the shape that runtimes can read.
///
/// The message is at most [`MAX_PAYLOAD`] bytes long; [`crate::message::Message`] sees to that.
#[must_use]
pub fn frames(connection: ConnectionId, message: &[u8]) -> Vec<u8> {
    let (first, rest) = message.split_at(message.len().min(FIRST_FRAME));
    let mut bytes = Vec::with_capacity(message.len() + 2 * FRAME_HEADER);
    for payload in [first, rest] {
        if !payload.is_empty() {
            let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&connection.0.to_be_bytes());
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(payload);
        }
    }
    bytes
}
