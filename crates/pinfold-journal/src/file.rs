//! The journal's folder, lock file and journal file: owned by the agent's user, writable by no other, never symlinks.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::JournalError;

/// Creates the folder, or checks that no other user can write to it.
pub(super) fn make_folder(path: &Path) -> Result<(), JournalError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(JournalError::file("create", path, error)),
    }
    let found = fs::symlink_metadata(path);
    let found = found.map_err(|error| JournalError::file("stat", path, error))?;
    match found.is_dir() {
        true => check_owner(path, &found),
        false => Err(not_safe(path, "it is not a folder")),
    }
}

/// Locks the lock file. The kernel releases the lock when the file is closed or the process terminates.
pub(super) fn lock(folder: &Path) -> Result<File, JournalError> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let file = open(&path, options.write(true).create(true))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(JournalError::Locked {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(JournalError::file("lock", &path, error)),
    }
}

/// Opens a regular file that no other user can write to. Symlinks are rejected.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, JournalError> {
    let options = options
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => not_safe(path, "it is a symbolic link"),
            _ => JournalError::file("open", path, error),
        })?;
    let found = file.metadata();
    let found = found.map_err(|error| JournalError::file("stat", path, error))?;
    match found.is_file() {
        true => check_owner(path, &found).map(|()| file),
        false => Err(not_safe(path, "it is not a regular file")),
    }
}

/// Replaces the file at `path` atomically: after a power failure it has either the old or the new content.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), JournalError> {
    pinfold_files::replace(path, content).map_err(|error| JournalError::file("write", path, error))
}

fn check_owner(path: &Path, found: &fs::Metadata) -> Result<(), JournalError> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_safe(path, "it belongs to another user"));
    }
    match found.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(not_safe(path, "other users can write to it")),
    }
}

fn not_safe(path: &Path, problem: &'static str) -> JournalError {
    JournalError::Unsafe {
        path: path.to_owned(),
        problem,
    }
}
