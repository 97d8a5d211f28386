//! HPACK (RFC 7541): a decoder with its dynamic table, and an encoder that does not use the table.

use std::collections::VecDeque;

use super::huffman;

/// The size of the client's dynamic table: HTTP/2's default, which our server does not change.
const MAX_TABLE: usize = 4096;
/// Limit of the decompressed size of a block: references to the table can expand a lot.
const MAX_LIST: usize = 32 * 1024;
/// The size of a table entry besides its name and value.
const OVERHEAD: usize = 32;

/// Errors of decompressing a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// The block ends within a field.
    #[error("a header block ends too early")]
    Short,
    /// An integer is too large.
    #[error("a number in a header block is too large")]
    Number,
    /// An index is not in the table.
    #[error("a header block refers to an index that is not in the table")]
    Index,
    /// The table is resized after the first field, or beyond the server's limit.
    #[error("a header block resizes the table beyond its bounds")]
    Resize,
    /// A string is not valid Huffman code.
    #[error("a header has an invalid Huffman code")]
    Huffman,
    /// The decompressed block is too large.
    #[error("a decompressed header block is too large")]
    TooLong,
}

/// A header: name and value.
pub(super) type HeaderField = (Vec<u8>, Vec<u8>);

/// Decompresses the header blocks of one connection, in order.
#[derive(Debug)]
pub(super) struct HpackDecoder {
    /// The dynamic table, latest entry first.
    table: VecDeque<HeaderField>,
    size: usize,
    limit: usize,
}

impl Default for HpackDecoder {
    fn default() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            limit: MAX_TABLE,
        }
    }
}

/// The representation of a header field, given by its first bits.
enum FieldForm {
    /// Name and value are in the table.
    Indexed,
    /// The value follows; the field is added to the table.
    Kept,
    /// The value follows; the field is not added to the table.
    Once,
    /// Not a field: resizes the table.
    Resize,
}

impl HpackDecoder {
    /// Decompresses the next block.
    pub(super) fn block(&mut self, mut bytes: &[u8]) -> Result<Vec<HeaderField>, HpackError> {
        let mut fields: Vec<HeaderField> = Vec::new();
        let mut total = 0;
        while let Some(&first) = bytes.first() {
            let (form, bits) = match first {
                0x80.. => (FieldForm::Indexed, 7),
                0x40.. => (FieldForm::Kept, 6),
                0x20.. => (FieldForm::Resize, 5),
                _ => (FieldForm::Once, 4),
            };
            let number = number(&mut bytes, bits)?;
            let field = match form {
                FieldForm::Resize if number > MAX_TABLE || !fields.is_empty() => {
                    return Err(HpackError::Resize);
                }
                FieldForm::Resize => {
                    self.limit = number;
                    self.shrink(number);
                    continue;
                }
                FieldForm::Indexed => self.entry(number)?,
                FieldForm::Kept | FieldForm::Once => {
                    let name = match number {
                        0 => text(&mut bytes)?,
                        _ => self.entry(number)?.0,
                    };
                    (name, text(&mut bytes)?)
                }
            };
            if matches!(form, FieldForm::Kept) {
                self.keep(&field);
            }
            total += cost(&field);
            if total > MAX_LIST {
                return Err(HpackError::TooLong);
            }
            fields.push(field);
        }
        Ok(fields)
    }

    /// The entry with this index: first the static table, then the dynamic one.
    fn entry(&self, number: usize) -> Result<HeaderField, HpackError> {
        let position = number.checked_sub(1).ok_or(HpackError::Index)?;
        if let Some((name, value)) = STATIC.get(position) {
            return Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        let entry = self.table.get(position - STATIC.len());
        entry.cloned().ok_or(HpackError::Index)
    }

    /// Adds a field to the table. A field larger than the table empties it.
    fn keep(&mut self, field: &HeaderField) {
        let cost = cost(field);
        self.shrink(self.limit.saturating_sub(cost));
        if cost <= self.limit {
            self.size += cost;
            self.table.push_front(field.clone());
        }
    }

    /// Evicts the oldest entries until the table has this size.
    fn shrink(&mut self, size: usize) {
        while self.size > size {
            let Some(oldest) = self.table.pop_back() else {
                return;
            };
            self.size -= cost(&oldest);
        }
    }
}

fn cost((name, value): &HeaderField) -> usize {
    name.len() + value.len() + OVERHEAD
}

/// Decodes an integer with a prefix of `bits` bits.
fn number(bytes: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let mask = (1_usize << bits) - 1;
    let mut value = usize::from(byte(bytes)?) & mask;
    if value < mask {
        return Ok(value);
    }
    // Three bytes reach two million, more than any valid value here.
    for shift in [0, 7, 14] {
        let digit = byte(bytes)?;
        value += usize::from(digit & 0x7f) << shift;
        if digit & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::Number)
}

/// Decodes a string, plain or in Huffman code.
fn text(bytes: &mut &[u8]) -> Result<Vec<u8>, HpackError> {
    let is_huffman = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let length = number(bytes, 7)?;
    let (text, rest) = bytes.split_at_checked(length).ok_or(HpackError::Short)?;
    *bytes = rest;
    match is_huffman {
        true => huffman::decode(text).ok_or(HpackError::Huffman),
        false => Ok(text.to_vec()),
    }
}

fn byte(bytes: &mut &[u8]) -> Result<u8, HpackError> {
    let (&first, rest) = bytes.split_first().ok_or(HpackError::Short)?;
    *bytes = rest;
    Ok(first)
}

/// Encodes a field as a literal that is not added to the table.
pub(super) fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    for text in [name, value] {
        write_length(text.len(), out);
        out.extend_from_slice(text);
    }
}

/// Encodes the length of a plain string.
fn write_length(length: usize, out: &mut Vec<u8>) {
    let low = |value: usize| u8::try_from(value & 0x7f).unwrap_or_default();
    let Some(mut rest) = length.checked_sub(0x7f) else {
        out.push(low(length));
        return;
    };
    out.push(0x7f);
    while rest > 0x7f {
        out.push(low(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low(rest));
}

/// The static table (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
