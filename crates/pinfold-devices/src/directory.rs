//! The directory of the plugins' sockets, and the sockets that we listen on.
//!
//! Mirrors `server.Start` and `CleanupPluginDirectory`: the directory is made with mode 0750, sockets of an
//! earlier life are removed (their plugins see the new registration socket and register again), other files stay.
//! Beyond the kubelet, the registration socket has mode 0600, and is made again if somebody removes it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kubelet_api::device_plugin::KUBELET_SOCKET;
use tokio::net::UnixListener;

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}: {error}", path.display())]
pub struct DirectoryError {
    /// What was tried.
    doing: &'static str,
    /// With which file.
    path: PathBuf,
    /// What came of it.
    #[source]
    error: io::Error,
}

/// A socket of ours as a file: removed with this value unless another has taken its place.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    identity: (u64, u64),
}

/// Makes the directory, and removes sockets of an earlier life.
pub(crate) fn prepare(directory: &Path) -> Result<(), DirectoryError> {
    let failed = |doing, path: &Path, error| DirectoryError {
        doing,
        path: path.to_owned(),
        error,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(directory)
        .map_err(|error| failed("make", directory, error))?;
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

impl Socket {
    /// Makes the registration socket, in the place of a file of that name.
    pub(crate) fn registration(directory: &Path) -> Result<(Self, UnixListener), DirectoryError> {
        Self::bind(directory.join(KUBELET_SOCKET))
    }

    /// Makes a socket that only its owner can connect to, in the place of a file of that name.
    pub(crate) fn bind(path: PathBuf) -> Result<(Self, UnixListener), DirectoryError> {
        let failed = |doing| {
            let path = path.clone();
            move |error| DirectoryError { doing, path, error }
        };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed("listen on"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed("protect"))?;
        let identity = identity(&path).map_err(failed("look at"))?;
        Ok((Self { path, identity }, listener))
    }

    /// Whether the file is still the one that was made.
    pub(crate) fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_in_place() {
            // What is left is removed by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
