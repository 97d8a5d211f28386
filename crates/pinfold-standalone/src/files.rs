//! Reads and replaces the registry's files, with the path in every error.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::StandaloneError;

/// Upper bound on the size of a file that is read.
const LARGEST: u64 = 64 << 20;

/// Reads a file as text.
pub(crate) fn read(path: &Path) -> Result<String, StandaloneError> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| StandaloneError::file("open", path, error))?;
    file.take(LARGEST)
        .read_to_string(&mut text)
        .map_err(|error| StandaloneError::file("read", path, error))?;
    Ok(text)
}

/// Replaces a file atomically: a reader sees the old text or the new one, even after a power cut.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), StandaloneError> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(|error| StandaloneError::file("create", &new, error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| StandaloneError::file("write", &new, error))?;
    fs::rename(&new, path).map_err(|error| StandaloneError::file("replace", path, error))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| StandaloneError::file("sync", folder, error))
}
