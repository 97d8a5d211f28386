//! Completion for kubectl, which calls the plugin as `kubectl_complete-pinfold` with the arguments typed so far.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use pinfold_terminal::{Failure, output};

use self::names::NamedKind;
use crate::args::Args;

mod names;

/// The name under which kubectl asks for completions.
const COMPLETE: &str = "kubectl_complete-pinfold";

/// Whether the program was called for completions.
pub(crate) fn is_requested(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == COMPLETE)
}

/// Prints the candidates for the last argument, one per line, then cobra's directive for the shell.
pub(crate) fn print(arguments: &[OsString]) -> Result<ExitCode, Failure> {
    /// `ShellCompDirectiveNoFileComp`: the shell does not add file names.
    const DIRECTIVE: u32 = 4;
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let mut text = String::new();
    let plugin = Args::command();
    let fixed = candidates(&plugin, &words);
    let names = match named_kind(&plugin, &words) {
        Some(kind) => names::list(kind, &words),
        None => Vec::new(),
    };
    for candidate in fixed.into_iter().chain(names) {
        let _ = writeln!(text, "{candidate}");
    }
    output::print(&format!("{text}:{DIRECTIVE}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The values, subcommands or flags that the last word may become.
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

/// The kind of objects whose names the last word may become.
fn named_kind(plugin: &Command, words: &[&str]) -> Option<NamedKind> {
    let (last, before) = words.split_last()?;
    let mut command = plugin;
    let mut value_of = None;
    for word in before {
        value_of = option(command, word);
        if let Some(below) = command.find_subcommand(word) {
            command = below;
        }
    }
    match (
        value_of.map(|flag| flag.get_id().as_str()),
        command.get_name(),
    ) {
        (Some("namespace"), _) => Some(NamedKind::Namespace),
        (Some("if_moved"), _) => Some(NamedKind::PodOfAnyNamespace),
        (Some(_), _) => None,
        (None, _) if last.starts_with('-') => None,
        (None, "pod") => Some(NamedKind::Pod),
        (None, "node") => Some(NamedKind::Node),
        (None, _) => None,
    }
}

/// The flag of this name, if it takes a value.
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
    fn the_file_name_of_the_program_requests_completions() {
        for (name, requested) in [
            ("/usr/local/bin/kubectl-pinfold", false),
            ("/usr/local/bin/kubectl_complete-pinfold", true),
            ("kubectl_complete-pinfold", true),
        ] {
            assert_eq!(is_requested(Some(OsStr::new(name))), requested, "{name}");
        }
        assert!(!is_requested(None));
    }

    #[test]
    fn subcommands_flags_and_values_are_completed() {
        let plugin = Args::command();
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

    #[test]
    fn pods_nodes_and_namespaces_are_completed_where_a_name_is_expected() {
        let plugin = Args::command();
        for (words, expected) in [
            (&["explain", "pod", "tr"][..], Some(NamedKind::Pod)),
            (&["explain", "pod", "-n", "m"], Some(NamedKind::Namespace)),
            (
                &["explain", "pod", "a", "--if-moved", ""],
                Some(NamedKind::PodOfAnyNamespace),
            ),
            (&["view", "node", ""], Some(NamedKind::Node)),
            (&["view", "node", "--o"], None),
            (&["view", "node", "-o", ""], None),
            (&["top", ""], None),
        ] {
            assert_eq!(named_kind(&plugin, words), expected, "{words:?}");
        }
    }
}
