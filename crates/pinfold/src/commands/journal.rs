//! `pinfold journal`: the entries of a node agent's journal, oldest first.

use std::path::PathBuf;
use std::process::ExitCode;

use pinfold_journal::JournalEntry;
use pinfold_journal::JournalEvent;
use pinfold_render::table::{Align, Table};

use crate::args::Format;
use crate::exit::Failure;
use crate::{journal_replay, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: pinfold journal --file /var/lib/pinfold/journal --since 120\n\n\
    The journal can be read while the agent runs. `pinfold simulate --journal FILE` replays its decisions.\n\n\
    Exit code 2: the journal is damaged or of a later version. Exit code 3: it cannot be read."
)]
pub(crate) struct JournalArgs {
    /// The agent's journal
    #[arg(long, value_name = "FILE", default_value = "/var/lib/pinfold/journal")]
    file: PathBuf,
    /// Show entries from this number on
    #[arg(long, value_name = "N", default_value_t = 0)]
    since: u64,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &JournalArgs) -> Result<ExitCode, Failure> {
    let history = journal_replay::history(&args.file)?;
    let entries = history.entries.iter();
    let entries: Vec<&JournalEntry> = entries.filter(|entry| entry.number >= args.since).collect();
    output::print_as(args.output, &entries, || text(&entries))?;
    Ok(ExitCode::SUCCESS)
}

fn text(entries: &[&JournalEntry]) -> String {
    if entries.is_empty() {
        return "no entries\n".to_owned();
    }
    let mut table = Table::new([
        ("entry", Align::Right),
        ("when (UTC)", Align::Left),
        ("what", Align::Left),
        ("pod", Align::Left),
        ("result", Align::Left),
    ]);
    for entry in entries {
        table.row([
            entry.number.to_string(),
            entry.time.strftime("%F %T").to_string(),
            word(&entry.event).to_owned(),
            entry.pod_name.clone(),
            entry.message.clone(),
        ]);
    }
    table.draw()
}

fn word(event: &JournalEvent) -> &'static str {
    match event {
        JournalEvent::Admitted(_) => "admitted",
        JournalEvent::Rejected(_) => "rejected",
        JournalEvent::ContainerStarted(..) => "started",
        JournalEvent::Pinned(..) => "pinned",
        JournalEvent::Released(_) => "released",
        JournalEvent::DevicesChanged(_) => "devices",
        JournalEvent::RulesChanged => "settings",
        JournalEvent::BestEffortLimited => "limited",
    }
}

#[cfg(test)]
mod tests {
    use pinfold_journal::Timestamp;

    use super::*;

    #[test]
    fn every_entry_is_a_row_with_its_result() {
        let entry = |number: u32, event, name: &str, message: &str| JournalEntry {
            number: number.into(),
            time: Timestamp::constant(1_767_225_600 + i64::from(number), 0),
            event,
            pod_name: name.to_owned(),
            message: message.to_owned(),
            change: None,
            record: None,
            pod: None,
            decision: None,
        };
        let entries = [
            entry(
                7,
                JournalEvent::Admitted("a".into()),
                "web-0",
                "node 0, CPUs 1-4",
            ),
            entry(
                8,
                JournalEvent::Rejected("b".into()),
                "db",
                "TopologyAffinityError: no single node",
            ),
            entry(9, JournalEvent::Released("a".into()), "web-0", "released"),
        ];
        let entries: Vec<&JournalEntry> = entries.iter().collect();
        assert_eq!(
            text(&entries),
            include_str!("../../tests/golden/journal.txt")
        );
        assert_eq!(text(&[]), "no entries\n");
    }
}
