//! Room: blank lines at the end of the file, over which transactions are written.
//!
//! A file that grows with every transaction has its new length synced with it, and many file systems then wait for
//! everything else that is being made on the same disk: images, containers. Where there is room, a sync is of the
//! transaction alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much room is made at a time: hundreds of transactions.
const ROOM: u64 = 1 << 20;
/// How much of it is written at a time.
const PIECE: usize = 64 << 10;

/// Where the room of a file ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    end: u64,
    /// The disk had no more to give.
    rejected: bool,
}

impl Room {
    /// Whatever the file has beyond what is written in it.
    pub(super) fn of(file_length: u64) -> Self {
        Self {
            end: file_length,
            rejected: false,
        }
    }

    /// There is none after the first `length` any more.
    pub(super) fn lose(&mut self, length: u64) {
        self.end = length;
    }

    /// Sees to it that `more` bytes can be written after the first `length`. Where the disk is nearly full it has no
    /// room, and grows as it is written to.
    pub(super) fn make(&mut self, file: &File, length: u64, more: u64) {
        let wanted = length.saturating_add(more);
        if wanted <= self.end || self.rejected {
            return;
        }
        let end = wanted.saturating_add(ROOM);
        let made = blank(file, length, end).and_then(|()| file.sync_all());
        match made {
            Ok(()) => self.end = end,
            Err(_) => {
                self.rejected = true;
                // Longer than it says is not wrong, only a waste.
                let _ = file.set_len(length);
            }
        }
    }
}

fn blank(file: &File, from: u64, end: u64) -> io::Result<()> {
    let lines = [b'\n'; PIECE];
    let mut at = from;
    while at < end {
        let rest = usize::try_from(end - at).unwrap_or(PIECE);
        let piece = lines.get(..rest).unwrap_or(&lines);
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// What is written in a file, without its room.
pub(super) fn without(bytes: &[u8]) -> &[u8] {
    let blank = bytes.iter().rev().take_while(|&&byte| byte == b'\n');
    // The last line's own end is no room.
    let room = blank.count().saturating_sub(1);
    &bytes[..bytes.len() - room]
}
