//! Reads and replaces the registry's files, with the path in every error.

use std::io::Read;
use std::path::Path;

use crate::error::StandaloneError;

/// Upper bound on the size of a file that is read.
const LARGEST: u64 = 64 << 20;

/// Reads a regular file as text.
pub(crate) fn read(path: &Path) -> Result<String, StandaloneError> {
    let mut text = String::new();
    let file = pinfold_files::open_regular(path)
        .map_err(|error| StandaloneError::file("open", path, error))?;
    file.take(LARGEST)
        .read_to_string(&mut text)
        .map_err(|error| StandaloneError::file("read", path, error))?;
    Ok(text)
}

/// Replaces a file atomically: a reader sees the old text or the new one, even after a power cut.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), StandaloneError> {
    pinfold_files::replace(path, text.as_bytes())
        .map_err(|error| StandaloneError::file("replace", path, error))
}
