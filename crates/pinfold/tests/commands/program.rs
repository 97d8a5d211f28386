//! Runs the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What came of a run.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder that tests may write to.
pub(crate) fn scratch() -> &'static str {
    env!("CARGO_TARGET_TMPDIR")
}

/// Runs `pinfold` with these arguments in this folder.
pub(crate) fn run<S: AsRef<str>>(folder: &Path, args: &[S]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_pinfold"))
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
    /// Everything a person sees.
    pub(crate) fn seen(&self) -> String {
        let mut seen = self.stdout.clone();
        seen.push_str(&self.stderr);
        seen
    }
}

/// The words of a command line; single quotes hold words together.
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
