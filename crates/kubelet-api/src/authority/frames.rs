//! [`FrameRewriter`]: finds the header blocks in a client's HTTP/2 frames and encodes them again.

use tonic::codegen::http::uri::Authority;

use super::hpack::{HpackDecoder, HpackError, literal};

/// The client's connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER: usize = 9;
/// Limit of the size of a header frame: HTTP/2's default, which our server announces.
const MAX_FRAME: usize = 16 * 1024;
/// Limits of the encoded size and the number of frames of a header block. Requests here have a few hundred bytes.
const MAX_BLOCK: usize = 32 * 1024;
const MAX_FRAMES: usize = 32;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The length of the priority fields.
const PRIORITY_LENGTH: usize = 5;

/// The authority that replaces an invalid one.
const LOCALHOST: &[u8] = b"localhost";

/// Violations of the HTTP/2 framing rules by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A header frame is longer than the server accepts.
    #[error("a header frame is too long")]
    Frame,
    /// A header block is too long.
    #[error("a header block is too long")]
    HeaderBlock,
    /// The padding or the priority exceeds its frame.
    #[error("the padding or priority of a header frame exceeds its length")]
    Padding,
    /// A header block is interrupted by other frames, or starts with a continuation.
    #[error("a header block is interrupted")]
    Interrupted,
    /// A header block cannot be decompressed.
    #[error(transparent)]
    Headers(#[from] HpackError),
}

/// Rewrites the frames of one client.
#[derive(Debug, Default)]
pub struct FrameRewriter {
    decoder: HpackDecoder,
    at: FramePosition,
    /// Bytes of the preface that have been read.
    preface: usize,
    block: Option<HeaderBlock>,
}

/// The position in the stream of frames.
#[derive(Debug)]
enum FramePosition {
    /// In a frame's header, of which these bytes have been read.
    Header(Vec<u8>),
    /// In a frame that is copied unchanged, with this many bytes left.
    Passing(usize),
    /// In a header frame, of which these bytes have been read.
    Headers { head: FrameHeader, payload: Vec<u8> },
}

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
struct FrameHeader {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

/// A header block whose last frame has not been read yet.
#[derive(Debug)]
struct HeaderBlock {
    stream: [u8; 4],
    ends_stream: bool,
    bytes: Vec<u8>,
    frames: usize,
}

impl Default for FramePosition {
    fn default() -> Self {
        Self::Header(Vec::with_capacity(HEADER))
    }
}

impl FrameRewriter {
    /// Rewrites the next bytes of the client and appends the result to `out`.
    ///
    /// # Errors
    /// If the client violates the framing rules: the connection cannot be used any more.
    pub fn pass(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
        let preface = bytes.len().min(PREFACE.len() - self.preface);
        out.extend_from_slice(take(&mut bytes, preface));
        self.preface += preface;
        while !bytes.is_empty() {
            match &mut self.at {
                FramePosition::Header(header) => {
                    header.extend_from_slice(take(&mut bytes, HEADER - header.len()));
                    if let Ok(header) = <[u8; HEADER]>::try_from(header.as_slice()) {
                        self.begin(header, out)?;
                    }
                }
                FramePosition::Passing(left) => {
                    let passed = take(&mut bytes, *left);
                    out.extend_from_slice(passed);
                    *left -= passed.len();
                    if *left == 0 {
                        self.at = FramePosition::default();
                    }
                }
                FramePosition::Headers { head, payload } => {
                    payload.extend_from_slice(take(&mut bytes, head.length - payload.len()));
                    if payload.len() == head.length {
                        let (head, payload) = (*head, std::mem::take(payload));
                        self.at = FramePosition::default();
                        self.headers(head, &payload, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles the header of a frame.
    fn begin(&mut self, header: [u8; HEADER], out: &mut Vec<u8>) -> Result<(), FrameError> {
        let [a, b, c, kind, flags, stream @ ..] = header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let head = FrameHeader {
            length,
            kind,
            flags,
            stream,
        };
        let continues = kind == CONTINUATION;
        if continues != self.block.is_some() {
            return Err(FrameError::Interrupted);
        }
        if kind != HEADERS && !continues {
            out.extend_from_slice(&header);
            self.at = match length {
                0 => FramePosition::default(),
                _ => FramePosition::Passing(length),
            };
            return Ok(());
        }
        if length > MAX_FRAME {
            return Err(FrameError::Frame);
        }
        if length == 0 {
            self.at = FramePosition::default();
            return self.headers(head, &[], out);
        }
        let payload = Vec::with_capacity(length);
        self.at = FramePosition::Headers { head, payload };
        Ok(())
    }

    /// Handles a complete header frame.
    fn headers(
        &mut self,
        head: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let mut block = match self.block.take() {
            Some(block) if block.stream == head.stream => block,
            Some(_) => return Err(FrameError::Interrupted),
            None => HeaderBlock {
                stream: head.stream,
                ends_stream: head.flags & END_STREAM != 0,
                bytes: Vec::new(),
                frames: 0,
            },
        };
        let fragment = match head.kind {
            HEADERS => fragment(head.flags, payload).ok_or(FrameError::Padding)?,
            _ => payload,
        };
        block.bytes.extend_from_slice(fragment);
        block.frames += 1;
        if block.bytes.len() > MAX_BLOCK || block.frames > MAX_FRAMES {
            return Err(FrameError::HeaderBlock);
        }
        if head.flags & END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(());
        }
        let mut written = Vec::with_capacity(block.bytes.len() * 2);
        for (name, value) in self.decoder.block(&block.bytes)? {
            let is_odd = name == b":authority" && Authority::try_from(value.as_slice()).is_err();
            literal(&name, if is_odd { LOCALHOST } else { &value }, &mut written);
        }
        write(&block, &written, out);
        Ok(())
    }
}

/// The part of a header block in a frame, without padding and priority.
fn fragment(flags: u8, payload: &[u8]) -> Option<&[u8]> {
    let (padding, mut rest) = match flags & PADDED {
        0 => (0, payload),
        _ => payload.split_first().map(|(&first, rest)| (first, rest))?,
    };
    if flags & PRIORITY != 0 {
        rest = rest.get(PRIORITY_LENGTH..)?;
    }
    rest.get(..rest.len().checked_sub(usize::from(padding))?)
}

/// Writes a header block, in several frames if it is too long for one.
fn write(block: &HeaderBlock, bytes: &[u8], out: &mut Vec<u8>) {
    let mut left = bytes;
    let mut kind = HEADERS;
    loop {
        let part = take(&mut left, MAX_FRAME);
        let [.., a, b, c] = part.len().to_be_bytes();
        let mut flags = 0;
        if kind == HEADERS && block.ends_stream {
            flags |= END_STREAM;
        }
        if left.is_empty() {
            flags |= END_HEADERS;
        }
        out.extend_from_slice(&[a, b, c, kind, flags]);
        out.extend_from_slice(&block.stream);
        out.extend_from_slice(part);
        if left.is_empty() {
            return;
        }
        kind = CONTINUATION;
    }
}

/// Splits off up to `count` bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    front
}
