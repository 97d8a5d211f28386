//! What a timeline sends to a page, and what it adds to an agent's journal.

use pinfold_core::occupancy::{Holder, Occupancy};
use pinfold_hardware::open_without_files;
use pinfold_journal::{JournalEntry, JournalEvent, Timestamp};
use serde_json::{Value, json};

use super::{Known, Note, Timeline};

/// An entry about the pod `a`.
fn entry(number: u64, event: JournalEvent) -> JournalEntry {
    JournalEntry {
        number,
        time: Timestamp::UNIX_EPOCH,
        event,
        pod_name: "shop/a".to_owned(),
        message: String::new(),
        change: None,
        record: None,
        pod: None,
        decision: None,
    }
}

/// The agent's present state: one pod with these CPUs.
fn holding(name: &str, cpus: &str) -> Occupancy {
    Occupancy {
        holders: vec![Holder {
            name: name.to_owned(),
            cpus: cpus.parse().expect("CPUs"),
            memory: Vec::new(),
        }],
        ..Occupancy::default()
    }
}

/// The CPUs and the end of each span of an answer.
fn spans(news: &Value) -> Vec<(&str, &Value)> {
    let spans = news["spans"].as_array().expect("spans");
    spans
        .iter()
        .map(|span| (span[3].as_str().unwrap_or(""), &span[5]))
        .collect()
}

#[test]
fn a_page_is_sent_only_what_it_does_not_know() {
    let mut timeline = Timeline::default();
    timeline.mark(&entry(1, JournalEvent::Rejected("u".into())));
    timeline.reconcile(&holding("shop/a", "0-1"), 10);
    let all = timeline.after(Known::default());
    assert_eq!(spans(&all), [("0-1", &Value::Null)]);
    assert_eq!(all["entries"].as_array().map(Vec::len), Some(1));
    let known = Known {
        entry: 1,
        pods: all["pods"].as_array().map_or(0, Vec::len),
        revision: all["revision"].as_u64().expect("a revision"),
    };
    let nothing = timeline.after(known);
    assert_eq!(
        (&nothing["spans"], &nothing["entries"], &nothing["pods"]),
        (&json!([]), &json!([]), &json!([]))
    );
    timeline.reconcile(&holding("shop/b", "2"), 20);
    let news = timeline.after(known);
    assert_eq!(spans(&news), [("0-1", &json!(20)), ("2", &Value::Null)]);
    assert_eq!(news["first_pod"], known.pods);
}

#[test]
fn a_pod_of_the_agent_that_no_entry_names_is_shown_from_the_first_entry_until_it_is_gone() {
    let machine = open_without_files("1 socket, 4 cores").expect("a machine");
    let (machine, _) = machine.machine_within_reach().expect("a machine");
    let mut timeline = Timeline::default();
    for number in [7, 8] {
        timeline.mark(&entry(number, JournalEvent::Rejected("u".into())));
    }
    let now = holding("shop/old", "1-2");
    timeline.reconcile(&now, 30);
    let then = timeline.occupancy(7, &machine, &now);
    assert_eq!(then.holders, now.holders);
    assert_eq!(then.shared.to_string(), "0,3");
    timeline.reconcile(&Occupancy::default(), 40);
    timeline.mark(&entry(9, JournalEvent::Rejected("u".into())));
    let later = timeline.occupancy(9, &machine, &now);
    assert!(later.holders.is_empty(), "{later:?}");
}

#[test]
fn a_container_that_starts_again_is_a_restart_until_its_pod_is_released() {
    let mut timeline = Timeline::default();
    let start = || JournalEvent::ContainerStarted("u".into(), "main".into());
    timeline.mark(&entry(1, start()));
    timeline.mark(&entry(2, start()));
    timeline.mark(&entry(3, JournalEvent::Released("u".into())));
    timeline.mark(&entry(4, start()));
    let news = timeline.after(Known::default());
    let events = news["events"].as_array().expect("events");
    let marks = news["entries"].as_array().expect("entries");
    let names: Vec<&Value> = marks
        .iter()
        .map(|mark| &events[usize::try_from(mark[2].as_u64().unwrap_or(99)).unwrap_or(99)])
        .collect();
    assert_eq!(names, ["started", "restarted", "released", "started"]);
}

#[test]
fn what_is_no_entry_of_the_journal_is_sent_once() {
    let mut timeline = Timeline::default();
    timeline.note(Note::Drift, 5);
    let all = timeline.after(Known::default());
    assert_eq!(all["notes"], json!([[5, "drift"]]));
    timeline.note(Note::Back, 6);
    let known = Known {
        revision: all["revision"].as_u64().expect("a revision"),
        ..Known::default()
    };
    assert_eq!(timeline.after(known)["notes"], json!([[6, "back"]]));
}
