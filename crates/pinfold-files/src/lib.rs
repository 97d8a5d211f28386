//! Replaces files atomically, and opens files that a privileged program reads without waiting or following links.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Replaces the file at `path`, which only its owner may read: after a crash or a power failure it has either its old or
/// its new content. The content is on disk when this returns. A symbolic link is replaced, not followed.
///
/// # Errors
/// If the new file cannot be written next to `path`, or its folder cannot be synced.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = OsString::from(path);
    new.push(".new");
    let new = PathBuf::from(new);
    // A leftover of a crash before the rename.
    let _ = fs::remove_file(&new);
    let replaced = create(&new, content).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

/// Opens a regular file for reading. A symbolic link is not followed, and a pipe is not waited for: both are of the kind
/// [`io::ErrorKind::InvalidInput`], as is everything else that is not a regular file.
///
/// # Errors
/// If there is no regular file at `path`, or it cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let not_regular = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => not_regular("it is a symbolic link"),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular("it is not a regular file")),
    }
}

/// Creates a file that must not exist, and syncs it to disk.
fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::FileType;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "content").expect("written");
        symlink(path("file"), path("link")).expect("a link");
        fs::create_dir(path("folder")).expect("a folder in it");
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, mode, 0)
            .expect("a pipe");
        let opened = open_regular(&path("file")).and_then(io::read_to_string);
        assert_eq!(opened.expect("a regular file"), "content");
        for name in ["link", "folder", "pipe"] {
            let error = open_regular(&path(name)).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
        }
        let error = open_regular(&path("missing")).expect_err("missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_replaced_and_leftovers_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (
            folder.path().join("state.json"),
            folder.path().join("other"),
        );
        fs::write(&other, "other").expect("written");
        symlink(&other, folder.path().join("state.json.new")).expect("a leftover");
        symlink(&other, &path).expect("a link");
        for content in ["first", "second"] {
            replace(&path, content.as_bytes()).expect("replaced");
            assert_eq!(fs::read_to_string(&path).expect("a file"), content);
        }
        assert_eq!(fs::read_to_string(&other).expect("kept"), "other");
        let found = fs::symlink_metadata(&path).expect("a file");
        assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_keeps_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::create_dir_all(path.join("b")).expect("a folder that a file cannot replace");
        assert!(replace(&path, b"new").is_err());
        assert!(path.join("b").is_dir());
        assert!(!folder.path().join("a.new").exists());
    }
}
