use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// A sink that others can look into.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("unpoisoned").clone()).expect("text")
    }
}

fn new_year() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_767_225_600_250)
}

fn log(format: LogFormat) -> (Log, Paper) {
    let paper = Paper::default();
    let log = Log::to(Box::new(paper.clone()), format, Level::Info, new_year);
    (log, paper)
}

#[test]
fn an_event_is_one_line_with_its_fields() {
    let (log, paper) = log(LogFormat::Text);
    log.info("pod admitted", &[("pod", &"shop/web-0"), ("cpus", &"2-3")]);
    assert_eq!(
        paper.text(),
        "time=2026-01-01T00:00:00.250Z level=info event=\"pod admitted\" pod=shop/web-0 cpus=2-3\n"
    );
}

#[test]
fn events_below_the_level_are_not_told() {
    let (log, paper) = log(LogFormat::Text);
    log.debug("small talk", &[]);
    assert_eq!(paper.text(), "");
    log.warn("odd", &[]);
    assert_eq!(paper.text().lines().count(), 1);
    Log::none().error("nobody listens", &[]);
}

const NASTY: &[&str] = &[
    "",
    "a b",
    "x\nlevel=error event=\"forged\"",
    "\" level=error \"",
    "back\\slash",
    "\u{1b}[31mred\u{7}",
    "line\u{2028}separator\u{202e}turned",
    "{\"a\":1}",
    "ümläut 😀",
];

#[test]
fn no_value_begins_another_line_or_field() {
    for value in NASTY {
        let (log, paper) = log(LogFormat::Text);
        log.info("e", &[("first", value), ("last", &"end")]);
        let text = paper.text();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.ends_with(" last=end\n"), "{text:?}");
        assert!(!text.trim_end().contains(is_unseen), "{text:?}");
        // Quotes hold everything between them: without what is quoted only our own fields are left.
        let bare: String = outside_quotes(text.trim_end());
        let names = bare.split(' ').filter_map(|word| word.split('=').next());
        let names: Vec<&str> = names.collect();
        assert_eq!(
            names,
            ["time", "level", "event", "first", "last"],
            "{text:?}"
        );
    }
}

/// The text without its quoted parts.
fn outside_quotes(text: &str) -> String {
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        match (inside, escaped, c) {
            (true, true, _) => escaped = false,
            (true, false, '\\') => escaped = true,
            (_, false, '"') => inside = !inside,
            (true, ..) => {}
            (false, ..) => out.push(c),
        }
    }
    assert!(!inside, "{text}");
    out
}

#[test]
fn a_line_of_json_says_exactly_what_was_meant() {
    for value in NASTY {
        let (log, paper) = log(LogFormat::Json);
        log.info("e", &[("value", value)]);
        let text = paper.text();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["value"], **value);
        assert_eq!(read["level"], "info");
    }
}

#[test]
fn a_field_has_an_end() {
    let (log, paper) = log(LogFormat::Text);
    log.info("e", &[("long", &"ü".repeat(100_000))]);
    let length = paper.text().chars().count();
    assert!(length < LONGEST + 100, "{length}");
}

static CLOCK: AtomicU64 = AtomicU64::new(0);

fn moved() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(CLOCK.load(Ordering::SeqCst))
}

#[test]
fn an_event_that_repeats_itself_is_held_back_and_counted() {
    let paper = Paper::default();
    let log = Log::to(Box::new(paper.clone()), LogFormat::Text, Level::Info, moved);
    for _ in 0..100 {
        log.warn("again", &[]);
    }
    assert_eq!(paper.text().lines().count(), MOST as usize);
    log.warn("something else", &[]);
    CLOCK.store(WINDOW, Ordering::SeqCst);
    log.warn("again", &[]);
    let text = paper.text();
    let last: Vec<&str> = text.lines().skip(MOST as usize).collect();
    assert!(last[0].ends_with("event=\"something else\""), "{text}");
    assert!(last[1].ends_with("event=again heldBack=80"), "{text}");
}
