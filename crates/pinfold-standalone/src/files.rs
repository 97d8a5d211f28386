//! Reading and writing small files, with the path and the value in every error.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::StandaloneError;

/// No file that is read here is larger.
const LARGEST: u64 = 64 << 20;

/// The whole text of a file.
pub(crate) fn read(path: &Path) -> Result<String, StandaloneError> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| StandaloneError::file("open", path, error))?;
    file.take(LARGEST)
        .read_to_string(&mut text)
        .map_err(|error| StandaloneError::file("read", path, error))?;
    Ok(text)
}

/// Writes a value to a control file of the kernel, in one call.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), StandaloneError> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|error| StandaloneError::Write {
        value: value.to_owned(),
        path: path.to_owned(),
        error,
    })
}

/// Replaces a file as a whole: whoever reads it sees the old text or the new one, even after a power cut.
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
