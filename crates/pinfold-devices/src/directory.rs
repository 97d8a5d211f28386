//! The directory of the plugins' sockets, and the sockets that the agent listens on.
//!
//! Mirrors `server.Start` and `CleanupPluginDirectory`: the directory is created with mode 0750, sockets left by an
//! earlier process are removed (their plugins see the new registration socket and register again), other files stay.
//! Unlike the kubelet's, the registration socket has mode 0600, and is created again if it is removed.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kubelet_api::device_plugin::KUBELET_SOCKET;
use tokio::net::UnixListener;

/// An operation in the directory failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}: {error}", path.display())]
pub struct DirectoryError {
    /// The operation.
    action: &'static str,
    /// The file or directory.
    path: PathBuf,
    /// The system's error.
    #[source]
    error: io::Error,
}

/// A socket file of this process. Dropping it removes the file, unless another file has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

/// Creates the directory, and removes sockets left by an earlier process.
pub(crate) fn prepare(directory: &Path) -> Result<(), DirectoryError> {
    let failed = |action, path: &Path, error| DirectoryError {
        action,
        path: path.to_owned(),
        error,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(directory)
        .map_err(|error| failed("create", directory, error))?;
    let entries = fs::read_dir(directory).map_err(|error| failed("read", directory, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed("read", directory, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            let path = entry.path();
            fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        }
    }
    Ok(())
}

impl SocketFile {
    /// Creates the registration socket, replacing an existing file.
    pub(crate) fn registration(directory: &Path) -> Result<(Self, UnixListener), DirectoryError> {
        Self::bind(directory.join(KUBELET_SOCKET))
    }

    /// Creates a socket that only its owner can connect to, replacing an existing file.
    pub(crate) fn bind(path: PathBuf) -> Result<(Self, UnixListener), DirectoryError> {
        let failed = |action| {
            let path = path.clone();
            move |error| DirectoryError {
                action,
                path,
                error,
            }
        };
        // A plugin connects as soon as it sees the file. In a folder of its own the socket first gets its mode, and
        // listens.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let private = path.with_file_name(format!(".new-{name}"));
        let _ = fs::remove_dir_all(&private);
        let made = DirBuilder::new().mode(0o700).create(&private);
        made.map_err(failed("create a folder for"))?;
        let new = private.join("socket");
        let bound = UnixListener::bind(&new).and_then(|listener| {
            fs::set_permissions(&new, Permissions::from_mode(0o600))?;
            fs::rename(&new, &path)?;
            Ok((listener, identity(&path)?))
        });
        let _ = fs::remove_dir_all(&private);
        let (listener, identity) = bound.map_err(failed("listen on"))?;
        Ok((Self { path, identity }, listener))
    }

    /// Whether the file at the path is still this socket.
    pub(crate) fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_in_place() {
            // A file that cannot be removed here is removed at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
