//! Binds a unix socket: only the daemon's user can open it, and a socket in use is not replaced.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Errors of binding a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process listens on it.
    #[error("{} is in use: another process listens on it; stop it first", .0.display())]
    InUse(PathBuf),
    /// The path names a file that is not a socket.
    #[error("{} is not a socket: remove it, or configure another path", .0.display())]
    NotASocket(PathBuf),
    /// Another user owns the folder or can write to it.
    #[error("{} belongs to another user, or other users can write to it: chown it, chmod go-w it, or configure another folder", .0.display())]
    Unsafe(PathBuf),
    /// A system call failed.
    #[error("cannot {operation} {}: {error}", path.display())]
    System {
        /// The operation, such as `listen on`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
}

/// The file of a socket. Dropping this value removes the file, unless another socket has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

/// Listens on `path`. Its folder is created with mode 0700 if it does not exist. The socket has mode 0600 before it is
/// renamed to `path`. A socket that an earlier process left is replaced if no process listens on it.
///
/// # Errors
/// If another process listens on it, the folder is not safe, or a system call fails.
pub fn bind(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let system = |operation, path: &Path| {
        let path = path.to_owned();
        move |error| SocketError::System {
            operation,
            path,
            error,
        }
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(system("create", folder))?;
    let found = fs::metadata(folder).map_err(system("stat", folder))?;
    // In a folder with the sticky bit a user cannot remove the files of other users.
    let ours = [0, rustix::process::geteuid().as_raw()].contains(&found.uid());
    if !ours || (found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0) {
        return Err(SocketError::Unsafe(folder.to_owned()));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        Ok(_) if is_in_use(path) => return Err(SocketError::InUse(path.to_owned())),
        _ => {}
    }
    // In a folder of its own nobody else can open the socket before it has its mode.
    let private = folder.join(format!(".new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&private);
    let made = DirBuilder::new().mode(0o700).create(&private);
    made.map_err(system("create", &private))?;
    let new = private.join("socket");
    let bound = UnixListener::bind(&new).and_then(|listener| {
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        fs::rename(&new, path)?;
        Ok((listener, identity(path)?))
    });
    let _ = fs::remove_dir_all(&private);
    let (listener, identity) = bound.map_err(system("listen on", path))?;
    let path = path.to_owned();
    Ok((listener, SocketFile { path, identity }))
}

/// Whether a process listens on the socket. An unclear error counts as yes.
fn is_in_use(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
        ),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // If it cannot be removed, the next process replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_owner_can_open_the_socket_and_dropping_it_removes_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/agent.sock");
        let (_listener, file) = bind(&path).expect("a socket");
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&folder.path().join("run")), 0o700);
        let others = fs::read_dir(folder.path().join("run")).expect("a folder");
        assert_eq!(others.count(), 1, "nothing else is left");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        let (listener, file) = bind(&path).expect("a socket");
        assert!(matches!(bind(&path), Err(SocketError::InUse(_))));
        drop(listener);
        let (_listener, newer) = bind(&path).expect("no listener any more");
        drop(file);
        assert!(
            path.exists(),
            "dropping the older socket does not remove the newer one"
        );
        drop(newer);
        fs::write(&path, "a letter").expect("written");
        assert!(matches!(bind(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read(&path).expect("kept"), b"a letter");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_no_place() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("ours");
        let bound = bind(&folder.path().join("agent.sock"));
        assert!(matches!(bound, Err(SocketError::Unsafe(_))));
    }
}
