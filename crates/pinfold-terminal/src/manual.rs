//! [`ManualCommand`]: the subcommands `completions` and `man`, which every program has.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, Subcommand};
use clap_complete::Shell;

use crate::exit::Failure;
use crate::output;

/// Prints shell completions and man pages, made from the same description as `--help`.
#[derive(Clone, Debug, Subcommand)]
pub enum ManualCommand {
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page, or write one page per command into a directory
    Man {
        /// The directory for the pages, such as /usr/local/share/man/man1
        dir: Option<PathBuf>,
    },
}

impl ManualCommand {
    /// Prints the completions or man pages of `program`.
    ///
    /// # Errors
    /// If the directory or standard output cannot be written to.
    pub fn run(&self, program: Command) -> Result<ExitCode, Failure> {
        match self {
            Self::Completions { shell } => completions(*shell, program)?,
            Self::Man { dir: Some(dir) } => write_man_pages(dir, program)?,
            Self::Man { dir: None } => print_man_page(program)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn completions(shell: Shell, mut program: Command) -> Result<(), Failure> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    output::print_raw(&String::from_utf8_lossy(&script))
}

fn write_man_pages(dir: &Path, program: Command) -> Result<(), Failure> {
    clap_mangen::generate_to(program, dir).map_err(|error| {
        let dir = dir.display();
        Failure::Environment(format!("cannot write man pages into {dir}: {error}"))
    })
}

fn print_man_page(program: Command) -> Result<(), Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(program).render(&mut page);
    rendered.map_err(|error| Failure::Environment(error.to_string()))?;
    output::print_raw(&String::from_utf8_lossy(&page))
}
