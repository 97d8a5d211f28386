//! The child's side of a run: finds itself in the book, goes where the book says, becomes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::book::Book;
use crate::error::StandaloneError;
use crate::process::Process;

/// Becomes the command of run `id`. Returns only if that fails: with the system's reason if the command
/// could not be executed.
///
/// The starter holds the lock until this process stands in the book, or until the starter is dead; either way the
/// book tells what to do.
///
/// # Errors
/// If this process is not in the book or cannot go where it says; nothing was run then.
pub fn become_command(
    folder: &Path,
    id: u64,
    command: &[OsString],
) -> Result<io::Error, StandaloneError> {
    let book = Book::read(folder)?;
    let this = Process::find(std::process::id());
    let mine = |run: &&crate::book::Run| run.id == id && Some(run.process) == this;
    let run = book
        .runs()
        .iter()
        .find(mine)
        .ok_or(StandaloneError::NotInBook { id })?;
    run.hold.enter(&run.placement)?;
    drop(book);
    let Some((program, arguments)) = command.split_first() else {
        return Ok(io::Error::from(io::ErrorKind::InvalidInput));
    };
    Ok(Command::new(program).args(arguments).exec())
}
