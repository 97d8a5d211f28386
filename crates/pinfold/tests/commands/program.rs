//! Runs the program under test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The exit code and output of a finished process.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The file of the picture that `demo` drew.
    #[allow(dead_code, reason = "only tests of `pinfold demo` look at it")]
    picture: Option<PathBuf>,
}

/// The words before the path of the picture.
const PICTURE: &str = "The same as a picture: ";

fn written_picture(text: &str) -> Option<PathBuf> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(PICTURE)?.into()))
}

/// The text with a fixed name for the new folder of a picture.
fn stable_picture(text: &str) -> String {
    let Some(path) = written_picture(text) else {
        return text.to_owned();
    };
    let folder = path.parent().and_then(Path::file_name).expect("a folder");
    let folder = folder.to_str().expect("text");
    text.replace(folder, "pinfold-demo-NEW")
}

/// The file of the picture that a run of `demo` drew.
#[allow(dead_code, reason = "only tests of `pinfold demo` look at it")]
pub(crate) fn picture(run: &Run) -> &Path {
    run.picture.as_deref().expect("it drew a picture")
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

/// Runs a line of a page with a shell, in a directory that shows the repository's files and takes new ones.
pub(crate) fn shell(line: &str) -> Run {
    let folder = Path::new(scratch()).join(format!("pages-{}", crate::COMMAND.replace(' ', "-")));
    fs::create_dir_all(&folder).expect("the target directory is writable");
    for shown in ["conformance", "crates", "deploy", "examples"] {
        let link = folder.join(shown);
        if link.symlink_metadata().is_err() {
            symlink(root().join(shown), link).expect("the target directory is writable");
        }
    }
    let programs = Path::new(crate::PROGRAM)
        .parent()
        .expect("a program is in a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &line.replace("kubectl pinfold", "kubectl-pinfold")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", programs.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the shell starts");
    Run::from(output)
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(scratch(), "TMP");
            stable_picture(&text)
        };
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            picture: written_picture(&String::from_utf8_lossy(&output.stdout)),
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
