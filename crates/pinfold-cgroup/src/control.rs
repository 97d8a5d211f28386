//! Reads and writes the control files of groups, with the path and the value in every error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::error::CgroupError;

/// Upper bound on the size of a kernel file that is read.
const LARGEST: u64 = 16 << 20;

/// Reads a control file as text.
///
/// # Errors
/// If it cannot be read; [`CgroupError::Vanished`] if its group is gone.
pub fn read(path: &Path) -> Result<String, CgroupError> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST).read_to_string(&mut text))
        .map_err(|error| read_error(path, error))?;
    Ok(text)
}

/// Writes a value in one call. An empty value is written as a line end, as the kernel requires.
///
/// # Errors
/// If the kernel rejects it; [`CgroupError::Vanished`] if the group is gone.
pub fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    let line = format!("{value}\n");
    let written = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| match is_missing(&error) {
        true => read_error(path, error),
        false => CgroupError::Rejected {
            path: path.to_owned(),
            value: value.to_owned(),
            error,
        },
    })
}

/// Reads a control file that lists CPUs.
///
/// # Errors
/// If it cannot be read, or is not a list of CPUs.
pub fn read_cpus(path: &Path) -> Result<CpuSet, CgroupError> {
    let text = read(path)?;
    cpus(&text).ok_or_else(|| CgroupError::Unreadable {
        path: path.to_owned(),
        text,
    })
}

/// Reads a control file that lists NUMA nodes.
///
/// # Errors
/// If it cannot be read, or is not a list of NUMA nodes.
pub fn read_mems(path: &Path) -> Result<NodeSet, CgroupError> {
    let text = read(path)?;
    // The kernel prints lists of CPUs and of nodes in the same format.
    let ids = cpus(&text).map(|ids| NodeSet::from_ids(ids.iter().map(|id| i64::from(id.get()))));
    match ids {
        Some(Ok(nodes)) => Ok(nodes),
        _ => Err(CgroupError::Unreadable {
            path: path.to_owned(),
            text,
        }),
    }
}

/// Whether a file of words, such as `cgroup.controllers`, contains this word.
#[must_use]
pub fn lists(path: &Path, word: &str) -> bool {
    read(path).is_ok_and(|text| text.split_ascii_whitespace().any(|found| found == word))
}

fn cpus(text: &str) -> Option<CpuSet> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    CpuSet::parse(text).ok()
}

/// Whether the error means that the group was removed: ENOENT before its file is opened, ENODEV after.
fn is_missing(error: &io::Error) -> bool {
    let no_device = rustix::io::Errno::NODEV.raw_os_error();
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(no_device)
}

fn read_error(path: &Path, error: io::Error) -> CgroupError {
    let group = path.parent().unwrap_or(path);
    match is_missing(&error) {
        true if !group.exists() => CgroupError::Vanished {
            group: group.to_owned(),
        },
        true => CgroupError::NoFile {
            path: path.to_owned(),
        },
        false => CgroupError::Read {
            path: path.to_owned(),
            error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_group_is_distinguished_from_a_file_that_a_group_does_not_have() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cpuset.cpus");
        let gone = folder.path().join("gone/cpuset.cpus");
        assert!(matches!(read(&file), Err(CgroupError::NoFile { .. })));
        assert!(matches!(write(&file, "0"), Err(CgroupError::NoFile { .. })));
        assert!(matches!(read(&gone), Err(CgroupError::Vanished { .. })));
        assert!(matches!(
            write(&gone, "0"),
            Err(CgroupError::Vanished { .. })
        ));
    }

    #[test]
    fn lists_of_cpus_and_nodes_are_parsed_as_the_kernel_prints_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("list");
        for (text, cpus, mems) in [
            ("0-3,8\n", Some("0-3,8"), Some("0-3,8")),
            ("\n", Some(""), Some("")),
            ("\0", Some(""), Some("")),
            ("64\n", Some("64"), None),
            ("1-\n", None, None),
            ("max\n", None, None),
        ] {
            std::fs::write(&file, text).expect("a file");
            let found = read_cpus(&file).ok().map(|set| set.to_string());
            assert_eq!(found.as_deref(), cpus, "CPUs in {text:?}");
            let found = read_mems(&file).ok().map(|set| set.to_string());
            assert_eq!(found.as_deref(), mems, "nodes in {text:?}");
        }
    }
}
