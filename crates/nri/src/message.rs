//! Codec of ttrpc messages: converts the bytes of one connection to messages, without I/O.
//!
//! ```text
//! offset 0   u32 big endian   length n of the data
//! offset 4   u32 big endian   stream: the call number, odd and increasing
//! offset 8   u8               kind: 1 request, 2 response, 3 data of a stream
//! offset 9   u8               flags: 0 for calls with one request and one response
//! offset 10  n bytes          data
//! ```

use thiserror::Error;

use crate::frame;

/// Size of a message header in bytes.
pub const MESSAGE_HEADER: usize = 10;

/// Maximum size of a message's data in bytes.
pub const MAX_DATA: usize = 4 << 20;

/// Flag of a streaming request: more messages of the stream follow.
pub(crate) const REMOTE_OPEN: u8 = 2;

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A call.
    Request,
    /// The answer to a call.
    Response,
    /// Data of a stream. NRI has no streaming calls.
    Data,
}

/// A ttrpc message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The call number.
    pub stream: u32,
    /// The message type.
    pub kind: MessageKind,
    /// Stream flags.
    pub flags: u8,
    data: Vec<u8>,
}

/// Errors of encoding and decoding messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The data is larger than [`MAX_DATA`].
    #[error("message {stream} has {length} bytes, more than {MAX_DATA}")]
    TooLong {
        /// The call number.
        stream: u32,
        /// Size of the data in bytes.
        length: usize,
    },
    /// The header has an unknown message type.
    #[error("message {stream} has the unknown type {kind}")]
    UnknownKind {
        /// The call number.
        stream: u32,
        /// The type in the header.
        kind: u8,
    },
}

impl Message {
    /// A message without flags.
    ///
    /// # Errors
    /// If the data is larger than [`MAX_DATA`].
    pub fn new(stream: u32, kind: MessageKind, data: Vec<u8>) -> Result<Self, MessageError> {
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

    /// The encoded message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_HEADER + self.data.len());
        let length = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.push(match self.kind {
            MessageKind::Request => 1,
            MessageKind::Response => 2,
            MessageKind::Data => 3,
        });
        bytes.push(self.flags);
        bytes.extend_from_slice(&self.data);
        bytes
    }
}

/// Decodes messages from chunks of bytes. Buffers at most one message, and allocates memory only as
/// its bytes arrive.
#[derive(Clone, Debug, Default)]
pub struct MessageDecoder {
    header: [u8; MESSAGE_HEADER],
    filled: usize,
    data: Vec<u8>,
}

impl MessageDecoder {
    /// Decodes the next message and removes its bytes from `input`; `None` if `input` ends before it.
    ///
    /// # Errors
    /// An invalid header. The rest of the connection cannot be decoded then.
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
            1 => MessageKind::Request,
            2 => MessageKind::Response,
            3 => MessageKind::Data,
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

    /// Whether no message is partly decoded.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.filled == 0
    }
}
