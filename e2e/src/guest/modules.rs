//! Modules of the installed kernel, and what they need.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of these modules and of all that they need, in the order in which they have to be loaded.
pub(super) fn with_needed(kernel: &Path, names: &[&str]) -> Result<Vec<PathBuf>, String> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let file = kernel.file_name().unwrap_or_default().to_string_lossy();
    let version = file.trim_start_matches("vmlinuz-");
    let folder = Path::new("/lib/modules").join(version);
    let list = folder.join("modules.dep");
    let list = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut found: Vec<PathBuf> = Vec::new();
    for name in names {
        let line = list.lines().find_map(|line| {
            let (module, needed) = line.split_once(':')?;
            let file = module.rsplit('/').next()?;
            (file.split('.').next() == Some(name)).then_some((module, needed))
        });
        let (module, needed) =
            line.ok_or_else(|| format!("{} has no module {name}", folder.display()))?;
        // The list has them nearest first.
        for path in needed.split_whitespace().rev().chain([module]) {
            let path = folder.join(path);
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}
