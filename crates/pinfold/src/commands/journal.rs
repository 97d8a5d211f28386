//! `pinfold journal`: every decision of a node's agent, oldest first.

use std::path::PathBuf;
use std::process::ExitCode;

use pinfold_agent::journal::What;
use pinfold_agent::{Entry, History, JournalError, Timestamp};
use pinfold_render::table::{Align, Table};

use crate::args::Format;
use crate::exit::Failure;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: pinfold journal --file /var/lib/pinfold/journal --since 120\n\n\
    The journal can be read while the agent runs.\n\n\
    Exit code 2: the journal is damaged or of a later version. Exit code 3: it cannot be read."
)]
pub(crate) struct JournalArgs {
    /// The journal
    #[arg(long, value_name = "FILE", default_value = "/var/lib/pinfold/journal")]
    file: PathBuf,
    /// Only entries from this number on
    #[arg(long, value_name = "N", default_value_t = 0)]
    since: u64,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &JournalArgs) -> Result<ExitCode, Failure> {
    let history = History::read(&args.file).map_err(|error| match error {
        JournalError::Damaged { .. } | JournalError::Version { .. } => {
            Failure::BadInput(error.to_string())
        }
        _ => Failure::Environment(error.to_string()),
    })?;
    let entries = history.entries.iter();
    let entries: Vec<&Entry> = entries.filter(|entry| entry.number >= args.since).collect();
    output::print_as(args.output, &entries, || text(&entries))?;
    Ok(ExitCode::SUCCESS)
}

fn text(entries: &[&Entry]) -> String {
    if entries.is_empty() {
        return "no entries\n".to_owned();
    }
    let mut table = Table::new([
        ("entry", Align::Right),
        ("when (UTC)", Align::Left),
        ("what", Align::Left),
        ("pod", Align::Left),
        ("what came of it", Align::Left),
    ]);
    for entry in entries {
        table.row([
            entry.number.to_string(),
            when(entry.at),
            word(&entry.what).to_owned(),
            entry.name.clone(),
            entry.told.clone(),
        ]);
    }
    table.draw()
}

fn word(what: &What) -> &'static str {
    match what {
        What::Admitted(_) => "admitted",
        What::Refused(_) => "refused",
        What::Started(..) => "started",
        What::Released(_) => "left",
        What::Offered(_) => "devices",
        What::Amended => "rules",
    }
}

/// `2026-01-31 13:37:00`: days to a date by the rules of the Gregorian calendar, years beginning in March.
fn when(at: Timestamp) -> String {
    let seconds = at.0 / 1000;
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}",
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_767_225_599, "2025-12-31 23:59:59"),
            (1_767_225_600, "2026-01-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(when(Timestamp(seconds * 1000)), expected);
        }
        assert!(!when(Timestamp(u64::MAX)).is_empty());
    }

    #[test]
    fn every_decision_is_a_line_with_its_reason() {
        let entry = |number, what, name: &str, told: &str| Entry {
            number,
            at: Timestamp(1_767_225_600_000 + number * 1000),
            what,
            name: name.to_owned(),
            told: told.to_owned(),
            change: None,
            pod: None,
            decision: None,
        };
        let entries = [
            entry(7, What::Admitted("a".into()), "web-0", "node 0, CPUs 1-4"),
            entry(
                8,
                What::Refused("b".into()),
                "db",
                "TopologyAffinityError: no single node",
            ),
            entry(9, What::Released("a".into()), "web-0", "left"),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        assert_eq!(
            text(&entries),
            include_str!("../../tests/golden/journal.txt")
        );
        assert_eq!(text(&[]), "no entries\n");
    }
}
