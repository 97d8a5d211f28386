//! The API's socket as a file: nobody else may open it, and nobody else's is taken away.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why nobody can be listened to there.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody answers there.
    #[error("{} is in use: another agent runs; stop it first", .0.display())]
    InUse(PathBuf),
    /// The name belongs to something else.
    #[error("{} is not a socket: remove it, or name another one", .0.display())]
    NotASocket(PathBuf),
    /// The folder is not safe.
    #[error("{} belongs to others, or they may write to it: chown it, chmod go-w it, or name another folder", .0.display())]
    Unsafe(PathBuf),
    /// The system did not do what was asked.
    #[error("cannot {doing} {}: {error}", path.display())]
    System {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

/// The socket as a file. Removed with this value, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

/// Listens on `path`. Its folder is made with mode 0700 if there is none, the socket has mode 0600 from the first moment
/// that it has its name. A socket of an earlier life is replaced if nobody answers.
///
/// # Errors
/// If somebody answers, or the place is not ours.
pub fn bind(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let system = |doing, path: &Path| {
        let path = path.to_owned();
        move |error| SocketError::System { doing, path, error }
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(system("make", folder))?;
    let found = fs::metadata(folder).map_err(system("look at", folder))?;
    // In a folder with the sticky bit nobody can take away the file of another.
    let ours = [0, rustix::process::geteuid().as_raw()].contains(&found.uid());
    if !ours || (found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0) {
        return Err(SocketError::Unsafe(folder.to_owned()));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        Ok(_) if is_answered(path) => return Err(SocketError::InUse(path.to_owned())),
        _ => {}
    }
    let new = folder.join(format!(".new-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new).map_err(system("listen on", path))?;
    let placed = fs::set_permissions(&new, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| identity(path));
    match placed {
        Ok(identity) => {
            let path = path.to_owned();
            Ok((listener, SocketFile { path, identity }))
        }
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(system("listen on", path)(error))
        }
    }
}

/// Whether somebody listens. In doubt somebody does.
fn is_answered(path: &Path) -> bool {
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
            // What is left is replaced by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_for_its_owner_alone_and_goes_away() {
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
    fn only_a_socket_that_nobody_answers_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        let (listener, file) = bind(&path).expect("a socket");
        assert!(matches!(bind(&path), Err(SocketError::InUse(_))));
        drop(listener);
        let (_listener, newer) = bind(&path).expect("nobody answers any more");
        drop(file);
        assert!(
            path.exists(),
            "the newer one is not the older one's to remove"
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
