//! Codec of the multiplexer's frames: splits the bytes of a trunk into those of its connections, without I/O.
//!
//! ```text
//! offset 0   u32 big endian   connection
//! offset 4   u32 big endian   length n of the payload
//! offset 8   n bytes          a piece of that connection's byte stream
//! ```
//!
//! For a receiver frame boundaries have no meaning: the payloads of one connection, concatenated, are
//! its byte stream. A *sender* must respect how runtimes read:
//!
//! 1. A frame holds bytes of one message only, and a frame that begins a message at most
//!    [`FIRST_FRAME`] bytes: runtimes read through a buffer of that size, and fail if a frame is
//!    larger than what is left of it.
//! 2. The rest must not be cut small: runtimes queue 256 frames and hang up on the next.
//!
//! So every message is sent as one frame or two: the first 4096 bytes, then all the rest.

use thiserror::Error;

/// Size of a frame header in bytes.
pub const FRAME_HEADER: usize = 8;

/// Maximum payload of a frame that begins a message.
pub const FIRST_FRAME: usize = 4096;

/// Maximum payload of a frame: the largest message with its header.
pub const MAX_PAYLOAD: usize = crate::message::MESSAGE_HEADER + crate::message::MAX_DATA;

/// Id of a connection on a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// The connection on which the runtime calls the plugin.
    pub const PLUGIN: ConnectionId = ConnectionId(1);
    /// The connection on which the plugin calls the runtime.
    pub const RUNTIME: ConnectionId = ConnectionId(2);
}

/// Errors of decoding frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrunkFrameError {
    /// The payload is larger than [`MAX_PAYLOAD`].
    #[error("a frame of connection {} claims {length} bytes, more than {MAX_PAYLOAD}", .connection.0)]
    TooLong {
        /// The connection of the frame.
        connection: ConnectionId,
        /// The length in the header.
        length: u32,
    },
}

/// A chunk of a connection's byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Its next bytes; never empty.
    pub bytes: &'a [u8],
}

/// Decodes frames from chunks of bytes. Payloads are not buffered.
#[derive(Clone, Debug, Default)]
pub struct FrameDecoder {
    header: [u8; FRAME_HEADER],
    filled: usize,
    connection: u32,
    remaining: usize,
}

impl FrameDecoder {
    /// Decodes the next payload chunk and removes its bytes from `input`; `None` if `input` has no more.
    ///
    /// # Errors
    /// A header with a length above [`MAX_PAYLOAD`]. The rest of the trunk cannot be decoded then.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, TrunkFrameError> {
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

    /// Whether no frame is partly decoded.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.filled == 0 && self.remaining == 0
    }
}

fn checked_length(connection: u32, length: u32) -> Result<usize, TrunkFrameError> {
    match usize::try_from(length) {
        Ok(length) if length <= MAX_PAYLOAD => Ok(length),
        _ => Err(TrunkFrameError::TooLong {
            connection: ConnectionId(connection),
            length,
        }),
    }
}

/// Moves bytes from the input to `target[filled..]`; returns their number.
pub(crate) fn fill(target: &mut [u8], filled: usize, input: &mut &[u8]) -> usize {
    let space = target.get_mut(filled..).unwrap_or_default();
    let count = space.len().min(input.len());
    let (taken, rest) = input.split_at(count);
    space[..count].copy_from_slice(taken);
    *input = rest;
    count
}

/// The two big-endian numbers at the start of frame and message headers.
pub(crate) fn two_numbers(header: &[u8]) -> (u32, u32) {
    let number = |at: usize| {
        let bytes = header.iter().skip(at).take(4);
        bytes.fold(0, |sum, &byte| sum << 8 | u32::from(byte))
    };
    (number(0), number(4))
}

/// Encodes a message as one or two frames.
///
/// The message has at most [`MAX_PAYLOAD`] bytes, which [`crate::message::Message`] guarantees.
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
