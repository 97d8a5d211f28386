//! Reads the transactions of a journal one after the other, so that memory does not grow with the file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::entry::JournalTransaction;
use super::{JournalError, LineSpan, line, read};

/// Largest file that is read. Journals stay far smaller because of their limits.
const MAX_BYTES: u64 = 1 << 30;
/// Bytes that are read at a time while the end of the written part is searched.
const CHUNK: usize = 16 << 10;
/// Preallocated space.
const BLANK: [u8; CHUNK] = [b'\n'; CHUNK];
/// Longest header.
const HEADER_BYTES: u64 = 64;

/// Where the valid part of a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanEnd {
    /// Length of the valid part.
    pub(super) length: u64,
    /// Bytes of an incomplete transaction after it.
    pub(super) truncated_bytes: u64,
}

/// A transaction with its position in the file.
pub(super) struct Scanned {
    pub(super) transaction: JournalTransaction,
    pub(super) span: LineSpan,
    /// Number of the line, from 1.
    pub(super) line: u64,
}

/// Reads all transactions of a journal.
///
/// # Errors
/// If the file cannot be read, is damaged or of a later version, or `each` fails.
pub(super) fn scan(
    path: &Path,
    file: &File,
    mut each: impl FnMut(Scanned) -> Result<(), JournalError>,
) -> Result<ScanEnd, JournalError> {
    let failed = |error| JournalError::file("read", path, error);
    let written = written_length(file).map_err(failed)?;
    if written > MAX_BYTES {
        return Err(JournalError::damaged(path, "it is larger than 1 GiB"));
    }
    let mut start = file;
    start.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::new(file.take(written));
    let mut bytes = Vec::new();
    let header = reader
        .by_ref()
        .take(HEADER_BYTES)
        .read_until(b'\n', &mut bytes);
    header.map_err(failed)?;
    let mut at = read::check_header(path, &bytes)? as u64;
    let mut number = 1;
    loop {
        number += 1;
        bytes.clear();
        let length = reader.read_until(b'\n', &mut bytes).map_err(failed)?;
        let complete = bytes.strip_suffix(b"\n");
        let Some(json) = complete.and_then(line::check) else {
            break;
        };
        let transaction = serde_json::from_slice(json)
            .map_err(|error| JournalError::damaged(path, format!("line {number}: {error}")))?;
        let length = length as u64;
        each(Scanned {
            transaction,
            span: LineSpan { start: at, length },
            line: number,
        })?;
        at += length;
    }
    loop {
        let buffered = reader.fill_buf().map_err(failed)?;
        let length = buffered.len();
        if length > 0 && BLANK.starts_with(buffered) {
            reader.consume(length);
            continue;
        }
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            break;
        }
        if line::check(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).is_some() {
            let problem =
                format!("the checksum of line {number} does not match, but later lines are valid");
            return Err(JournalError::damaged(path, problem));
        }
    }
    Ok(ScanEnd {
        length: at,
        truncated_bytes: written - at,
    })
}

/// Length of a file without preallocated space: blank lines at its end. One line break belongs to the last line.
pub(super) fn written_length(file: &File) -> std::io::Result<u64> {
    let mut end = file.metadata()?.len().min(MAX_BYTES + 1);
    let total = end;
    let mut bytes = vec![0; CHUNK];
    while end > 0 {
        let start = end.saturating_sub(CHUNK as u64);
        let chunk = &mut bytes[..usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(chunk, start)?;
        if BLANK.starts_with(chunk) {
            end = start;
            continue;
        }
        if let Some(last) = chunk.iter().rposition(|&byte| byte != b'\n') {
            let written = start + last as u64 + 1;
            return Ok((written + 1).min(total));
        }
        end = start;
    }
    Ok(total.min(1))
}
