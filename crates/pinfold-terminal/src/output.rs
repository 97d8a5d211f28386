//! Results on standard output. A closed pipe (`| head`) ends the program without an error message.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::ValueEnum;
use pinfold_render::Colour;

use crate::escape::{emphasize, escape};
use crate::exit::{Failure, REJECTED};

/// The columns of text that does not go to a terminal.
const WIDTH: usize = 80;
/// The least and most columns used on a terminal.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=200;

/// The value of `--output`: how a command prints its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// The columns that text on standard output may use: the terminal's width within limits, 80 for files and pipes.
#[must_use]
pub fn width() -> usize {
    columns(&io::stdout()).map_or(WIDTH, |columns| {
        columns.clamp(*WIDTHS.start(), *WIDTHS.end())
    })
}

/// The width of a terminal; `None` if `stream` is no terminal or reports no size.
pub fn columns(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// When text has colours: the value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

/// The value of `--color`, set once by `main`.
static CHOICE: OnceLock<ColourChoice> = OnceLock::new();

/// Sets when text has colours. Only the first call counts.
pub fn choose_colour(choice: ColourChoice) {
    let _ = CHOICE.set(choice);
}

/// Writes text for people to standard output, with control characters from files written out.
///
/// # Errors
/// If standard output cannot be written to, unless the reader has closed the pipe.
pub fn print(text: &str) -> Result<(), Failure> {
    match colour() {
        Colour::Ansi => print_raw(&emphasize(&escape(text, true))),
        Colour::Plain => print_raw(&escape(text, false)),
    }
}

/// Writes text for programs to standard output as it is.
///
/// # Errors
/// If standard output cannot be written to, unless the reader has closed the pipe.
pub fn print_raw(text: &str) -> Result<(), Failure> {
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

/// Writes `value` as JSON or YAML, or the result of `text` as it is.
///
/// # Errors
/// If the value cannot be serialized or standard output cannot be written to.
pub fn print_as<T: serde::Serialize>(
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

/// Writes the answer of a command that ended with [`Failure::Rejected`] as its result. Other results stay as they are.
///
/// # Errors
/// If standard output cannot be written to, or the command failed otherwise.
pub fn print_rejected(
    format: Format,
    result: Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    match result {
        Err(Failure::Rejected(rejected)) => {
            print_as(format, &rejected.value, || rejected.text.clone())?;
            Ok(ExitCode::from(REJECTED))
        }
        other => other,
    }
}

/// Writes a value as indented JSON.
///
/// # Errors
/// If the value cannot be serialized or standard output cannot be written to.
pub fn print_json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::Environment(format!("cannot write the result as JSON: {error}"))
    })?;
    print_raw(&escape(&format!("{text}\n"), false))
}

/// Writes a value as YAML.
///
/// # Errors
/// If the value cannot be serialized or standard output cannot be written to.
pub fn print_yaml<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(value).map_err(|error| {
        Failure::Environment(format!("cannot write the result as YAML: {error}"))
    })?;
    print_raw(&escape(&text, false))
}

/// Writes a file that was named on the command line.
///
/// # Errors
/// If the file cannot be written.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, content)
        .map_err(|error| Failure::Environment(format!("cannot write {}: {error}", path.display())))
}

/// Writes a warning or a note to standard error.
#[expect(
    clippy::print_stderr,
    reason = "the one place where warnings and notes are printed"
)]
pub fn remark(text: &str) {
    eprintln!("{}", escape(text, false));
}

/// A word as a shell reads it: in single quotes if it has other characters than letters, digits and those of paths.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=+,@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Shortens the name of a pod in the namespace `default` to its bare name.
pub fn drop_default_namespace(pod: &mut String) {
    if let Some(name) = pod.strip_prefix("default/") {
        *pod = name.to_owned();
    }
}

/// Colour as `--color` says; without it on a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
#[must_use]
pub fn colour() -> Colour {
    match CHOICE.get() {
        Some(ColourChoice::Always) => return Colour::Ansi,
        Some(ColourChoice::Never) => return Colour::Plain,
        Some(ColourChoice::Auto) | None => {}
    }
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let capable = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    match io::stdout().is_terminal() && unset("NO_COLOR") && capable {
        true => Colour::Ansi,
        false => Colour::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn words_that_a_shell_would_split_are_quoted() {
        for (word, written) in [
            ("/etc/kubelet.yaml", "/etc/kubelet.yaml"),
            ("2 sockets, 4 cores", "'2 sockets, 4 cores'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), written);
        }
    }
}
