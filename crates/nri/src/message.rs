//! The messages of ttrpc, as a pure codec: bytes of one connection in, messages out.
//!
//! ```text
//! offset 0   u32 big endian   length n of the data
//! offset 4   u32 big endian   stream: the number of the call, odd, growing
//! offset 8   u8               kind: 1 request, 2 response, 3 data of a stream
//! offset 9   u8               flags: 0 for calls with one request and one response
//! offset 10  n bytes          data
//! ```

use thiserror::Error;

use crate::frame;

/// The bytes before a message's data.
pub const MESSAGE_HEADER: usize = 10;

/// The most data a message may have.
pub const MAX_DATA: usize = 4 << 20;

/// The flag of a request that more of its stream will follow.
pub(crate) const REMOTE_OPEN: u8 = 2;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call.
    Request,
    /// The answer to a call.
    Response,
    /// Data of a stream. No call of NRI streams.
    Data,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the call.
    pub stream: u32,
    /// What the message is.
    pub kind: Kind,
    /// Flags of streams.
    pub flags: u8,
    data: Vec<u8>,
}

/// Why bytes are no message, or a value cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// More data than a message may have.
    #[error("message {stream} has {length} bytes, more than {MAX_DATA}")]
    TooLong {
        /// The number of the call.
        stream: u32,
        /// How much it has.
        length: usize,
    },
    /// A kind that does not exist.
    #[error("message {stream} is of kind {kind}, which does not exist")]
    UnknownKind {
        /// The number of the call.
        stream: u32,
        /// The kind its header says.
        kind: u8,
    },
}

impl Message {
    /// A message without flags.
    ///
    /// # Errors
    /// More than [`MAX_DATA`] bytes of data.
    pub fn new(stream: u32, kind: Kind, data: Vec<u8>) -> Result<Self, MessageError> {
        match data.len() {
            length if length > MAX_DATA => Err(MessageError::TooLong { stream, length }),
            _ => Ok(Message {
                stream,
                kind,
                flags: 0,
                data,
            }),
        }
    }

    /// The message's data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The message as it is on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_HEADER + self.data.len());
        let length = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.push(match self.kind {
            Kind::Request => 1,
            Kind::Response => 2,
            Kind::Data => 3,
        });
        bytes.push(self.flags);
        bytes.extend_from_slice(&self.data);
        bytes
    }
}

/// Puts messages together, however their bytes arrive. Holds at most one message, and never more
/// memory than a few times what has arrived of it.
#[derive(Clone, Debug, Default)]
pub struct MessageDecoder {
    header: [u8; MESSAGE_HEADER],
    filled: usize,
    data: Vec<u8>,
}

impl MessageDecoder {
    /// The next message of the input, which it is taken from; `None` when the input is used up.
    ///
    /// # Errors
    /// A header that makes no sense. Nothing that follows makes sense then.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Message>, MessageError> {
        self.filled += frame::fill(&mut self.header, self.filled, input);
        if self.filled < MESSAGE_HEADER {
            return Ok(None);
        }
        let (length, stream) = frame::two_numbers(&self.header);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_DATA {
            return Err(MessageError::TooLong { stream, length });
        }
        let [.., kind, flags] = self.header;
        let kind = match kind {
            1 => Kind::Request,
            2 => Kind::Response,
            3 => Kind::Data,
            kind => return Err(MessageError::UnknownKind { stream, kind }),
        };
        let missing = length.saturating_sub(self.data.len());
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.data.extend_from_slice(taken);
        *input = rest;
        if self.data.len() < length {
            return Ok(None);
        }
        self.filled = 0;
        Ok(Some(Message {
            stream,
            kind,
            flags,
            data: std::mem::take(&mut self.data),
        }))
    }

    /// Whether the bytes so far end where a message ends.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.filled == 0
    }
}
