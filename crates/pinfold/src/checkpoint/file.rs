//! [`Stored`]: the file itself, which is only changed while no kubelet runs, with a copy kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use pinfold_core::demand::PodLevel;
use pinfold_kube::state::cpu::{CpuRestore, CpuStateFormat, RunningContainers};
use pinfold_kube::state::{CpuManagerState, MAX_FILE_BYTES, Manager, RestoreError};

/// Why the file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The system said no.
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
    /// It is no state of a CPU manager.
    #[error(transparent)]
    Content(#[from] RestoreError),
    /// It is a link, a folder or something else.
    #[error("{} is not a plain file", .0.display())]
    NotPlain(PathBuf),
    /// Somebody wrote it meanwhile.
    #[error("{} was changed meanwhile; is the kubelet running? Nothing was done", .0.display())]
    Changed(PathBuf),
}

/// The file as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    path: PathBuf,
    bytes: Vec<u8>,
    format: CpuStateFormat,
    /// What it says.
    pub(crate) state: CpuManagerState,
}

impl Stored {
    /// Reads the file in a kubelet's root folder.
    ///
    /// # Errors
    /// If it cannot be read, or a kubelet would reject it.
    pub(crate) fn read(root: &Path, pod_level: PodLevel) -> Result<Self, FileError> {
        let path = root.join(Manager::Cpu.file_name());
        let bytes = bytes(&path)?;
        let file = path.to_string_lossy();
        let how = CpuRestore {
            file: &file,
            policy: None,
            pod_level,
            running: &RunningContainers::new(),
        };
        let (state, format) = CpuManagerState::restore(&bytes, &how)?;
        Ok(Self {
            path,
            bytes,
            format,
            state,
        })
    }

    /// Writes another state in its place, as a whole and in the same format. Where the old one is kept.
    ///
    /// # Errors
    /// If somebody changed it meanwhile, or it cannot be written. It is as it was then.
    pub(crate) fn replace(&self, state: &CpuManagerState) -> Result<PathBuf, FileError> {
        if bytes(&self.path)? != self.bytes {
            return Err(FileError::Changed(self.path.clone()));
        }
        let kept = self.keep()?;
        let new = self.path.with_extension("pinfold-new");
        let content = state.write(self.format);
        // Left over from an earlier attempt: it never counted.
        let _ = fs::remove_file(&new);
        create(&new, content.as_bytes())?;
        let placed = fs::rename(&new, &self.path).and_then(|()| sync_folder(&self.path));
        placed.map_err(|error| {
            let _ = fs::remove_file(&new);
            system("replace", &self.path, error)
        })?;
        Ok(kept)
    }

    /// A copy under a name that nothing has yet.
    fn keep(&self) -> Result<PathBuf, FileError> {
        for number in 1..=MOST_COPIES {
            let kept = self.path.with_extension(format!("before-pinfold-{number}"));
            match create(&kept, &self.bytes) {
                Err(FileError::System { error, .. })
                    if error.kind() == io::ErrorKind::AlreadyExists => {}
                Ok(()) => return Ok(kept),
                Err(error) => return Err(error),
            }
        }
        let error = io::Error::other(format!("there are {MOST_COPIES} already; remove some"));
        Err(system("keep a copy of", &self.path, error))
    }
}

/// Copies that are kept beside each other.
const MOST_COPIES: u32 = 100;

fn system(doing: &'static str, path: &Path, error: io::Error) -> FileError {
    let path = path.to_owned();
    FileError::System { doing, path, error }
}

fn bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => FileError::NotPlain(path.to_owned()),
        _ => system("read", path, error),
    })?;
    let found = file
        .metadata()
        .map_err(|error| system("look at", path, error))?;
    if !found.is_file() {
        return Err(FileError::NotPlain(path.to_owned()));
    }
    let most = u64::try_from(MAX_FILE_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    let read = file.take(most).read_to_end(&mut bytes);
    read.map_err(|error| system("read", path, error))?;
    Ok(bytes)
}

/// A new file for its owner alone, on disk when this returns.
fn create(path: &Path, content: &[u8]) -> Result<(), FileError> {
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

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}

/// How it is known that a kubelet runs on this machine; `None` if nothing says so. `proc` is the kernel's folder of
/// processes, `root` the kubelet's.
#[must_use]
pub(crate) fn kubelet_runs(proc: &Path, root: &Path) -> Option<String> {
    let socket = root.join("pod-resources/kubelet.sock");
    if UnixStream::connect(&socket).is_ok() {
        return Some(format!("somebody answers at {}", socket.display()));
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

    fn stored(root: &Path) -> Stored {
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
        Stored::read(root, PodLevel::Ignored).expect("a state")
    }

    #[test]
    fn the_new_state_takes_the_place_of_the_old_one_which_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = stored(folder.path());
        let mut state = before.state.clone();
        state.default_cpus = "0-2,4".parse().expect("CPUs");
        state.containers = [(
            "a".into(),
            [("main".into(), "3".parse().expect("a CPU"))].into(),
        )]
        .into();
        let kept = before.replace(&state).expect("written");
        assert_eq!(fs::read(&kept).expect("kept"), before.bytes);
        assert_eq!(fs::metadata(&kept).expect("kept").mode() & 0o777, 0o600);
        let after = Stored::read(folder.path(), PodLevel::Ignored).expect("a kubelet takes it");
        assert_eq!((after.state, after.format), (state, CpuStateFormat::V2));
        let again = before.replace(&before.state);
        assert!(
            matches!(again, Err(FileError::Changed(_))),
            "it is not the one that was read"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("elsewhere"), "{}").expect("written");
        let link = folder.path().join("cpu_manager_state");
        symlink(folder.path().join("elsewhere"), &link).expect("a link");
        let read = Stored::read(folder.path(), PodLevel::Ignored);
        assert!(matches!(read, Err(FileError::NotPlain(_))));
    }

    #[test]
    fn a_kubelet_is_known_by_its_process_or_its_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (proc, root) = (folder.path().join("proc"), folder.path().join("kubelet"));
        for (process, command) in [("12", "sh"), ("self", "kubelet"), ("34", "kubelet-helper")] {
            let process = proc.join(process);
            fs::create_dir_all(&process).expect("a folder");
            fs::write(process.join("comm"), format!("{command}\n")).expect("written");
        }
        fs::create_dir_all(root.join("pod-resources")).expect("a folder");
        assert_eq!(kubelet_runs(&proc, &root), None);
        fs::create_dir_all(proc.join("56")).expect("a folder");
        fs::write(proc.join("56/comm"), "kubelet\n").expect("written");
        let found = kubelet_runs(&proc, &root).expect("a process");
        assert_eq!(found, "process 56 is a kubelet");
        fs::remove_dir_all(proc.join("56")).expect("removed");
        let socket = root.join("pod-resources/kubelet.sock");
        let _listener = UnixListener::bind(socket).expect("a socket");
        let found = kubelet_runs(&proc, &root).expect("a socket");
        assert!(found.starts_with("somebody answers at "), "{found}");
    }
}
