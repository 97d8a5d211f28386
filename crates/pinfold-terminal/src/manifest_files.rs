//! The files of a directory that is named on the command line.

use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// The endings of manifests.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// Limits of a directory tree.
const MAX_DEPTH: usize = 32;
const MAX_FILES: usize = 10_000;

/// The manifests (`*.yaml`, `*.yml`, `*.json`, also with `.gz`) of a directory in order; with `recursive` also those of
/// its subdirectories. Symbolic links to directories are not followed. A path that is no directory is itself.
///
/// # Errors
/// If a directory cannot be read, has no manifest, or too many.
pub fn find(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Failure> {
    if path.as_os_str() == "-" || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    collect(path, recursive, MAX_DEPTH, &mut files)?;
    match (files.is_empty(), recursive) {
        (false, _) => Ok(files),
        (true, recursive) => Err(Failure::BadInput(format!(
            "{}: expected *.yaml, *.yml or *.json files in the directory, found none{}",
            path.display(),
            if recursive {
                ""
            } else {
                " (-R looks into its subdirectories)"
            }
        ))),
    }
}

fn collect(
    dir: &Path,
    recursive: bool,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let failure = |error: std::io::Error| {
        Failure::BadInput(format!("cannot read {}: {error}", dir.display()))
    };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failure)? {
        let entry = entry.map_err(failure)?;
        entries.push((entry.path(), entry.file_type().map_err(failure)?.is_dir()));
    }
    entries.sort();
    for (path, is_dir) in entries {
        if is_dir {
            if recursive && depth > 0 {
                collect(&path, recursive, depth - 1, files)?;
            }
        } else if is_manifest(&path) {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(Failure::BadInput(format!(
                "{}: expected at most {MAX_FILES} manifests, found more",
                dir.display()
            )));
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let (_, ending) = name.rsplit_once('.').unwrap_or_default();
    ENDINGS.contains(&ending)
}
