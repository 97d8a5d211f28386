//! The CPU time that a group has used.

use std::path::Path;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::CgroupVersion;

/// Reads the CPU time of the group in `folder`, in microseconds.
pub(crate) fn read(version: CgroupVersion, folder: &Path) -> Result<u64, CgroupError> {
    let (file, divisor) = match version {
        CgroupVersion::V1 => ("cpuacct.usage", 1000),
        CgroupVersion::V2 => ("cpu.stat", 1),
    };
    let path = folder.join(file);
    let text = control::read(&path)?;
    let number = match version {
        CgroupVersion::V1 => Some(text.trim()),
        CgroupVersion::V2 => text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec ")),
    };
    match number.and_then(|number| number.parse::<u64>().ok()) {
        Some(number) => Ok(number / divisor),
        None => Err(CgroupError::Unreadable { path, text }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_versions_have_the_time_in_microseconds_and_anything_else_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |version, file: &str, text: &str| {
            fs::write(folder.path().join(file), text).expect("written");
            read(version, folder.path()).ok()
        };
        let (v1, v2) = (CgroupVersion::V1, CgroupVersion::V2);
        assert_eq!(read(v1, "cpuacct.usage", "1234567\n"), Some(1234));
        assert_eq!(read(v1, "cpuacct.usage", "-1\n"), None);
        let stat = "usage_usec 1234\nuser_usec 1000\n";
        assert_eq!(read(v2, "cpu.stat", stat), Some(1234));
        assert_eq!(read(v2, "cpu.stat", "user_usec 1000\n"), None);
    }
}
