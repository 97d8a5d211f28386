//! The format of one line: a checksum, a space, and a transaction as JSON without line breaks.

use serde::Serialize;

/// Number of hexadecimal digits of the checksum.
const DIGITS: usize = 8;

/// Serializes a transaction as a line with its line break.
pub(super) fn write(transaction: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = vec![b' '; DIGITS + 1];
    serde_json::to_writer(&mut line, transaction)?;
    let checksum = format!("{:0DIGITS$x}", crc32fast::hash(&line[DIGITS + 1..]));
    line[..DIGITS].copy_from_slice(checksum.as_bytes());
    line.push(b'\n');
    Ok(line)
}

/// The JSON of a line without its line break; `None` if the checksum does not match.
pub(super) fn check(line: &[u8]) -> Option<&[u8]> {
    let (head, json) = line.split_at_checked(DIGITS + 1)?;
    let checksum = format!("{:0DIGITS$x} ", crc32fast::hash(json));
    (head == checksum.as_bytes()).then_some(json)
}
