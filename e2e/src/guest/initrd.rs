//! A root file system in memory: the `newc` archive that a Linux kernel unpacks at boot.

use std::io;
use std::path::Path;

/// An archive being filled. Parents must be added before what is in them.
#[derive(Default)]
pub(crate) struct Initrd {
    bytes: Vec<u8>,
    entries: u32,
}

impl Initrd {
    /// Adds a folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, 0o040_755, &[]);
    }

    /// Adds an executable with this content.
    pub(crate) fn program(&mut self, path: &str, content: &[u8]) {
        self.entry(path, 0o100_755, content);
    }

    /// Adds an executable of the host.
    pub(crate) fn program_from(&mut self, path: &str, host: &Path) -> io::Result<()> {
        let content = std::fs::read(host).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", host.display()))
        })?;
        self.program(path, &content);
        Ok(())
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries,
            mode,
            0, // owner: root
            0,
            1, // links
            0, // time
            u32::try_from(content.len()).expect("programs are smaller than 4 GiB"),
            0,
            0,
            0,
            0,
            u32::try_from(path.len() + 1).expect("paths are short"),
            0, // no checksum in this format
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }
}
