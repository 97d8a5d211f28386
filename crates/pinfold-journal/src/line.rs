//! One line of the file: a checksum, a blank, and a transaction as JSON, which has no line breaks.

use serde::Serialize;

/// Hexadecimal digits of the checksum.
const DIGITS: usize = 8;

/// The line of a transaction, with its line break.
pub(super) fn write(transaction: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = vec![b' '; DIGITS + 1];
    serde_json::to_writer(&mut line, transaction)?;
    let checksum = format!("{:0DIGITS$x}", crc32fast::hash(&line[DIGITS + 1..]));
    line[..DIGITS].copy_from_slice(checksum.as_bytes());
    line.push(b'\n');
    Ok(line)
}

/// The JSON of a line without its line break; `None` if that is not what was written.
pub(super) fn check(line: &[u8]) -> Option<&[u8]> {
    let (head, json) = line.split_at_checked(DIGITS + 1)?;
    let checksum = format!("{:0DIGITS$x} ", crc32fast::hash(json));
    (head == checksum.as_bytes()).then_some(json)
}
