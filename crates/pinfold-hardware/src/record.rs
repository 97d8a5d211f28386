//! Recordings: the kernel files that a machine was read from, in one small file.
//!
//! ```text
//! pinfold-machine 1
//! sys/devices/system/cpu/cpu0/topology/core_id = 0\n
//! sys/devices/system/node/node0/access0/initiators/node0
//! sys/bus/pci/devices/0000:3b:02.0/physfn -> 0000:3b:00.0
//! ```
//!
//! One line per file (`=`), link (`->`) or path that only exists, sorted by path. `\n`, `\r`, `\0` and `\\` stand for a
//! line end, a carriage return, a NUL byte and a backslash. Stored compressed with gzip; plain text is read as well, so
//! that a recording can be edited. It contains only what the readers of this crate read: no host name, no serial
//! number, no process list.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::HardwareError;
use crate::hardware::Hardware;
use crate::sysfs;
use crate::tree::{Tree, TreeEntries, TreeEntry};

/// The first line of a recording.
const HEADER: &str = "pinfold-machine 1";
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Limit of the uncompressed size; 4096 CPUs need about 20 MB.
const LARGEST: u64 = 64 << 20;

/// The kernel files that a machine was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    entries: TreeEntries,
}

impl Recording {
    /// Records the machine whose `sys` and `proc` directories are in `root`; `/` is this machine.
    ///
    /// # Errors
    /// If no machine can be read there.
    pub fn of(root: &Path) -> Result<Self, HardwareError> {
        let tree = Tree::recording(root)?;
        sysfs::read(&tree)?;
        Ok(Self {
            entries: tree.into_entries(),
        })
    }

    /// Whether a file with this beginning is a recording.
    #[must_use]
    pub fn is_one(beginning: &[u8]) -> bool {
        beginning.starts_with(&GZIP) || beginning.starts_with(HEADER.as_bytes())
    }

    /// Reads a recording, compressed or not.
    ///
    /// # Errors
    /// If it is not a recording, or too large.
    pub fn read(bytes: &[u8]) -> Result<Self, HardwareError> {
        if !bytes.starts_with(&GZIP) {
            return Self::parse(bytes);
        }
        let mut text = Vec::new();
        let decoder = MultiGzDecoder::new(bytes);
        decoder
            .take(LARGEST + 1)
            .read_to_end(&mut text)
            .map_err(|_| broken(1, "the compressed data is damaged"))?;
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<Self, HardwareError> {
        if text.len() as u64 > LARGEST {
            return Err(HardwareError::TooMuch {
                what: "bytes in a recording",
                found: text.len() as u64,
                limit: LARGEST,
            });
        }
        let text = std::str::from_utf8(text).map_err(|_| broken(1, "it is not text"))?;
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line.trim_end()) != Some(HEADER) {
            return Err(broken(1, "expected \"pinfold-machine 1\""));
        }
        let mut entries = TreeEntries::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let plain = |text| unescape(text).ok_or(broken(number + 1, "unknown escape"));
            let (path, entry) = if let Some((path, text)) = line.split_once(" = ") {
                (path, TreeEntry::File(plain(text)?))
            } else if let Some((path, name)) = line.split_once(" -> ") {
                (path, TreeEntry::Link(plain(name)?))
            } else {
                (line, TreeEntry::Present)
            };
            entries.insert(plain(path)?, entry);
        }
        Ok(Self { entries })
    }

    /// Reads the recorded machine.
    ///
    /// # Errors
    /// If the recorded files do not describe a machine.
    pub fn replay(&self) -> Result<Hardware, HardwareError> {
        sysfs::read(&Tree::Recorded(self.entries.clone()))
    }

    /// The recording as plain text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (path, entry) in &self.entries {
            text.push_str(&escape(path));
            let wrote = match entry {
                TreeEntry::File(content) => writeln!(text, " = {}", escape(content)),
                TreeEntry::Link(name) => writeln!(text, " -> {}", escape(name)),
                TreeEntry::Present => writeln!(text),
            };
            wrote.expect("a String takes all text");
        }
        text
    }

    /// Writes the recording, compressed with gzip.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write(&self, writer: impl Write) -> Result<(), HardwareError> {
        let mut encoder = GzEncoder::new(writer, Compression::best());
        let written = encoder.write_all(self.to_text().as_bytes());
        written
            .and_then(|()| encoder.finish().map(|_| ()))
            .map_err(HardwareError::Unwritable)
    }
}

fn broken(line: usize, problem: &'static str) -> HardwareError {
    HardwareError::Recording { line, problem }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\0' => escaped.push_str("\\0"),
            '\\' => escaped.push_str("\\\\"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                'r' => '\r',
                '0' => '\0',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}
