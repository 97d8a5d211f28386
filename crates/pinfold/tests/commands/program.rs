//! Runs the program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The exit code and output of a finished process.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A directory that tests may write to.
pub(crate) fn scratch() -> &'static str {
    env!("CARGO_TARGET_TMPDIR")
}

/// Runs the program with these arguments in this directory.
pub(crate) fn run<S: AsRef<str>>(folder: &Path, args: &[S]) -> Run {
    let output = Command::new(crate::PROGRAM)
        .args(args.iter().map(AsRef::as_ref))
        .current_dir(folder)
        .env("TMPDIR", scratch())
        .env("COLUMNS", "80")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    Run::from(output)
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(scratch(), "TMP");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

impl Run {
    /// Standard output followed by standard error.
    pub(crate) fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// The arguments of a command line; single quotes group words.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}
