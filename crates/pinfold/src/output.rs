//! Writing results. A closed pipe (`| head`) ends the program quietly instead of with a panic.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use pinfold_render::Colour;

use crate::args::Format;
use crate::exit::Failure;

/// How wide text is where nobody knows better.
const WIDTH: usize = 80;
/// Narrower than this, pictures fall apart; wider, sentences are hard to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;

/// How wide text may be: the width of the terminal, within reason. Files and pipes get 80 columns.
pub(crate) fn width() -> usize {
    columns(&io::stdout()).map_or(WIDTH, |columns| {
        columns.clamp(*WIDTHS.start(), *WIDTHS.end())
    })
}

/// The columns of a terminal; `None` if it is none or does not know.
pub(crate) fn columns(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::Environment(format!(
            "cannot write to standard output: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Writes a value for programs, or the text for people.
pub(crate) fn print_as<T: serde::Serialize>(
    format: Format,
    value: &T,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match format {
        Format::Text => print(&text()),
        Format::Json => print_json(value),
        Format::Yaml => print_yaml(value),
    }
}

/// Writes a value as indented JSON.
pub(crate) fn print_json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::Environment(format!("cannot write the result as JSON: {error}"))
    })?;
    print(&format!("{text}\n"))
}

/// Writes a value as YAML.
pub(crate) fn print_yaml<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(value).map_err(|error| {
        Failure::Environment(format!("cannot write the result as YAML: {error}"))
    })?;
    print(&text)
}

/// Writes a file that the user asked for.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, content)
        .map_err(|error| Failure::Environment(format!("cannot write {}: {error}", path.display())))
}

/// Tells something beside the result, on standard error.
#[expect(
    clippy::print_stderr,
    reason = "the one place where remarks are printed"
)]
pub(crate) fn remark(text: &str) {
    eprintln!("{text}");
}

/// Colour on a terminal, unless `NO_COLOR` is set or the terminal knows none.
pub(crate) fn colour() -> Colour {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let capable = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    match io::stdout().is_terminal() && unset("NO_COLOR") && capable {
        true => Colour::Ansi,
        false => Colour::Plain,
    }
}
