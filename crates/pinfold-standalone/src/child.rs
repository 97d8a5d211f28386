//! The child's side of a run: finds its entry in the registry, confines itself, and executes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::StandaloneError;
use crate::process::Process;
use crate::run_registry::RunRegistry;

/// Confines this process as the run `id` and executes the command. Returns only on failure, with the system's reason
/// if the command could not be executed.
///
/// The parent holds the registry's lock until this process is registered or the parent is dead, so the registry is
/// up to date once the lock is free.
///
/// # Errors
/// If this process is not registered or cannot be confined; the command was not executed then.
pub fn become_command(
    folder: &Path,
    id: u64,
    command: &[OsString],
) -> Result<io::Error, StandaloneError> {
    let registry = RunRegistry::read(folder)?;
    let this = Process::find(std::process::id());
    let mine = |run: &&crate::run_registry::Run| run.id == id && Some(run.process) == this;
    let run = registry
        .runs()
        .iter()
        .find(mine)
        .ok_or(StandaloneError::NotRegistered { id })?;
    run.confinement.enter(&run.placement)?;
    drop(registry);
    let Some((program, arguments)) = command.split_first() else {
        return Ok(io::Error::from(io::ErrorKind::InvalidInput));
    };
    Ok(Command::new(program).args(arguments).exec())
}
