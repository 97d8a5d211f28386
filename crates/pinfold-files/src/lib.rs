//! Replaces files atomically.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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

    use super::*;

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
