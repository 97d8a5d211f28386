//! [`CpuManagerStateFile`]: the file `cpu_manager_state` of a stopped kubelet. Replacing it keeps a copy.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::state::cpu::{CpuRestore, CpuStateFormat, RunningContainers};
use pinfold_kube::state::{CpuManagerState, KubeletManager, MAX_FILE_BYTES, RestoreError};

/// Errors of reading and replacing the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    /// A file operation failed.
    #[error("cannot {operation} {}: {error}", path.display())]
    System {
        /// The operation, such as `read`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The content is not a valid CPU manager state.
    #[error(transparent)]
    Content(#[from] RestoreError),
    /// It is a symlink, a folder or another kind of file.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// The file was changed after it was read.
    #[error("{} was changed after it was read; is the kubelet running? Nothing was written", .0.display())]
    Changed(PathBuf),
}

/// The file `cpu_manager_state` as it was read.
#[derive(Clone, Debug)]
pub(crate) struct CpuManagerStateFile {
    path: PathBuf,
    bytes: Vec<u8>,
    format: CpuStateFormat,
    /// The state in the file.
    pub(crate) state: CpuManagerState,
}

impl CpuManagerStateFile {
    /// Reads the file in a kubelet's root directory.
    ///
    /// # Errors
    /// If it cannot be read, or a kubelet would reject its content.
    pub(crate) fn read(root: &Path, pod_level: PodLevel) -> Result<Self, StateFileError> {
        let path = root.join(KubeletManager::Cpu.file_name());
        let bytes = bytes(&path)?;
        let file = path.to_string_lossy();
        let how = CpuRestore {
            file: &file,
            policy: None,
            pod_level,
            running: &RunningContainers::new(),
            fidelity: Fidelity::Exact,
        };
        let (state, format) = CpuManagerState::restore(&bytes, &how)?;
        Ok(Self {
            path,
            bytes,
            format,
            state,
        })
    }

    /// Replaces the file atomically by `state` in the same format. Returns the path of a copy of the old file.
    ///
    /// # Errors
    /// If the file was changed after it was read, or cannot be written. It is then unchanged.
    pub(crate) fn replace(&self, state: &CpuManagerState) -> Result<PathBuf, StateFileError> {
        if bytes(&self.path)? != self.bytes {
            return Err(StateFileError::Changed(self.path.clone()));
        }
        let backup = self.back_up()?;
        let content = state.write(self.format);
        pinfold_files::replace(&self.path, content.as_bytes())
            .map_err(|error| system("replace", &self.path, error))?;
        Ok(backup)
    }

    /// Writes a copy of the old file under an unused name.
    fn back_up(&self) -> Result<PathBuf, StateFileError> {
        for number in 1..=MAX_COPIES {
            let backup = self.path.with_extension(format!("before-pinfold-{number}"));
            match create(&backup, &self.bytes) {
                Err(StateFileError::System { error, .. })
                    if error.kind() == io::ErrorKind::AlreadyExists => {}
                Ok(()) => return Ok(backup),
                Err(error) => return Err(error),
            }
        }
        let error = io::Error::other(format!(
            "there are {MAX_COPIES} copies already; remove some"
        ));
        Err(system("copy", &self.path, error))
    }
}

/// Largest number of copies that are kept.
const MAX_COPIES: u32 = 100;

fn system(operation: &'static str, path: &Path, error: io::Error) -> StateFileError {
    let path = path.to_owned();
    StateFileError::System {
        operation,
        path,
        error,
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, StateFileError> {
    let file = pinfold_files::open_regular(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => StateFileError::NotRegular(path.to_owned()),
        _ => system("read", path, error),
    })?;
    let most = u64::try_from(MAX_FILE_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    let read = file.take(most).read_to_end(&mut bytes);
    read.map_err(|error| system("read", path, error))?;
    Ok(bytes)
}

/// Creates a file with mode 0600 and syncs it to disk.
fn create(path: &Path, content: &[u8]) -> Result<(), StateFileError> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path);
    let mut file = file.map_err(|error| system("create", path, error))?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        system("write", path, error)
    })
}

/// Looks for a running kubelet: a process of that name, or a listener on its podresources socket. Returns what was found;
/// `None` if no kubelet runs. `proc` is `/proc`, `root` the kubelet's root directory.
#[must_use]
pub(crate) fn find_running_kubelet(proc: &Path, root: &Path) -> Option<String> {
    let socket = root.join("pod-resources/kubelet.sock");
    if UnixStream::connect(&socket).is_ok() {
        return Some(format!("a process listens on {}", socket.display()));
    }
    let own = fs::metadata(proc.join("self"))
        .map(|found| found.ino())
        .ok();
    for process in fs::read_dir(proc).into_iter().flatten().flatten() {
        let name = process.file_name();
        let Some(number) = name
            .to_str()
            .filter(|name| name.bytes().all(|c| c.is_ascii_digit()))
        else {
            continue;
        };
        if process.metadata().map(|found| found.ino()).ok() == own {
            continue;
        }
        let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        if command.trim_end() == "kubelet" {
            return Some(format!("process {number} is a kubelet"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn stored(root: &Path) -> CpuManagerStateFile {
        let state = CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: "0-3".parse().expect("CPUs"),
            containers: [(
                "a".into(),
                [("main".into(), "4".parse().expect("a CPU"))].into(),
            )]
            .into(),
            pods: std::collections::BTreeMap::new(),
        };
        let text = state.write(CpuStateFormat::V2);
        fs::write(root.join("cpu_manager_state"), text).expect("written");
        CpuManagerStateFile::read(root, PodLevel::Ignored).expect("a state")
    }

    #[test]
    fn replacing_the_file_keeps_a_copy_of_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = stored(folder.path());
        let mut state = before.state.clone();
        state.default_cpus = "0-2,4".parse().expect("CPUs");
        state.containers = [(
            "a".into(),
            [("main".into(), "3".parse().expect("a CPU"))].into(),
        )]
        .into();
        let backup = before.replace(&state).expect("written");
        assert_eq!(fs::read(&backup).expect("a copy"), before.bytes);
        assert_eq!(fs::metadata(&backup).expect("a copy").mode() & 0o777, 0o600);
        let after = CpuManagerStateFile::read(folder.path(), PodLevel::Ignored)
            .expect("a state that a kubelet accepts");
        assert_eq!((after.state, after.format), (state, CpuStateFormat::V2));
        let again = before.replace(&before.state);
        assert!(
            matches!(again, Err(StateFileError::Changed(_))),
            "the file is no longer the one that was read"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_symlink_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("elsewhere"), "{}").expect("written");
        let link = folder.path().join("cpu_manager_state");
        symlink(folder.path().join("elsewhere"), &link).expect("a link");
        let read = CpuManagerStateFile::read(folder.path(), PodLevel::Ignored);
        assert!(matches!(read, Err(StateFileError::NotRegular(_))));
    }

    #[test]
    fn a_running_kubelet_is_found_by_its_process_or_its_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (proc, root) = (folder.path().join("proc"), folder.path().join("kubelet"));
        for (process, command) in [("12", "sh"), ("self", "kubelet"), ("34", "kubelet-helper")] {
            let process = proc.join(process);
            fs::create_dir_all(&process).expect("a folder");
            fs::write(process.join("comm"), format!("{command}\n")).expect("written");
        }
        fs::create_dir_all(root.join("pod-resources")).expect("a folder");
        assert_eq!(find_running_kubelet(&proc, &root), None);
        fs::create_dir_all(proc.join("56")).expect("a folder");
        fs::write(proc.join("56/comm"), "kubelet\n").expect("written");
        let found = find_running_kubelet(&proc, &root).expect("a process");
        assert_eq!(found, "process 56 is a kubelet");
        fs::remove_dir_all(proc.join("56")).expect("removed");
        let socket = root.join("pod-resources/kubelet.sock");
        let _listener = UnixListener::bind(socket).expect("a socket");
        let found = find_running_kubelet(&proc, &root).expect("a socket");
        assert!(found.starts_with("a process listens on "), "{found}");
    }
}
