//! The program as a kubectl plugin: a link named `kubectl-pinfold` makes `kubectl pinfold top` what
//! `pinfold cluster top` is, and one named `kubectl_complete-pinfold` lets kubectl finish its words.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;

use clap::{Command, CommandFactory, Parser};

use crate::commands::cluster::ClusterCommand;
use crate::exit::Failure;
use crate::output;

/// The name that kubectl looks for.
pub(crate) const PLUGIN: &str = "kubectl-pinfold";
/// The name that kubectl looks for when a word is to be finished.
const COMPLETE: &str = "kubectl_complete-pinfold";

/// Shows what runs on the NUMA nodes of a cluster, and says why pods are where they are.
#[derive(Debug, Parser)]
#[command(
    name = PLUGIN,
    bin_name = "kubectl pinfold",
    version,
    about,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 rejected (a real \"no\"), 2 bad input, 3 environment."
)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

/// As what the program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Itself.
    Program,
    /// The plugin.
    Plugin,
    /// Who finishes the plugin's words.
    Complete,
}

impl Role {
    /// By the name of the file that was run.
    pub(crate) fn of(program: Option<&OsStr>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_name());
        match name.and_then(OsStr::to_str) {
            Some(PLUGIN) => Role::Plugin,
            Some(COMPLETE) => Role::Complete,
            _ => Role::Program,
        }
    }
}

/// Prints what the last word could become, then what kubectl is to do with it.
pub(crate) fn complete(words: &[OsString]) -> Result<(), Failure> {
    /// No file names.
    const DIRECTIVE: u32 = 4;
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let mut text = String::new();
    for candidate in candidates(&PluginArgs::command(), &words) {
        let _ = writeln!(text, "{candidate}");
    }
    output::print(&format!("{text}:{DIRECTIVE}\n"))
}

/// What the last word could become after those before it.
fn candidates(plugin: &Command, words: &[&str]) -> Vec<String> {
    let (last, before) = words.split_last().unwrap_or((&"", &[]));
    let mut command = plugin;
    let mut value_of = None;
    for word in before {
        value_of = option(command, word);
        if let Some(below) = command.find_subcommand(word) {
            command = below;
        }
    }
    if let Some(argument) = value_of {
        let values = argument.get_possible_values();
        let names = values.iter().map(|value| value.get_name().to_owned());
        return names.filter(|name| name.starts_with(last)).collect();
    }
    let below = command
        .get_subcommands()
        .map(|own| own.get_name().to_owned());
    let options = command.get_arguments().filter_map(|own| own.get_long());
    let options = options.map(|name| format!("--{name}"));
    let mut all: Vec<String> = match last.starts_with('-') {
        true => options.collect(),
        false => below.collect(),
    };
    all.retain(|name| name.starts_with(last));
    all
}

/// The option that a word names and that takes a value.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c clap::Arg> {
    let mut arguments = command.get_arguments();
    arguments.find(|argument| {
        let named = match word.strip_prefix("--") {
            Some(long) => argument.get_long() == Some(long),
            None => word.strip_prefix('-').is_some_and(|short| {
                argument
                    .get_short()
                    .is_some_and(|own| own.to_string() == short)
            }),
        };
        named && argument.get_action().takes_values()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_decides_what_the_program_is() {
        for (name, role) in [
            ("/usr/local/bin/pinfold", Role::Program),
            ("/usr/local/bin/kubectl-pinfold", Role::Plugin),
            ("kubectl_complete-pinfold", Role::Complete),
            ("pinfold-1.0", Role::Program),
        ] {
            assert_eq!(Role::of(Some(OsStr::new(name))), role, "{name}");
        }
        assert_eq!(Role::of(None), Role::Program);
    }

    #[test]
    fn words_are_finished_by_what_may_come_there() {
        let plugin = PluginArgs::command();
        for (words, expected) in [
            (&["t"][..], &["top"][..]),
            (&["explain", ""], &["pod"]),
            (&["view", "node", "--out"], &["--output"]),
            (&["top", "--sort", "m"], &["memory"]),
            (&["top", "-o", ""], &["text", "json", "yaml"]),
            (&["explain", "pod", ""], &[]),
        ] {
            assert_eq!(candidates(&plugin, words), expected, "{words:?}");
        }
    }
}
