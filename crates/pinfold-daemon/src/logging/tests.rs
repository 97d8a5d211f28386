use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use super::line::{LONGEST_FIELD, is_invisible};
use super::rate_limit::{LINES_PER_WINDOW, WINDOW};
use super::*;

/// A writer whose contents tests can read.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("unpoisoned").clone()).expect("text")
    }
}

fn new_year() -> Timestamp {
    Timestamp::from_millisecond(1_767_225_600_250).expect("in range")
}

/// What is logged while `run` runs.
fn logged(format: LogFormat, levels: &str, run: impl FnOnce()) -> String {
    logged_by(format, levels, new_year, run)
}

fn logged_by(
    format: LogFormat,
    levels: &str,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    run: impl FnOnce(),
) -> String {
    let out = Captured::default();
    let levels: LogLevels = levels.parse().expect("levels");
    let subscriber = tracing_subscriber::registry()
        .with(levels.filter())
        .with(LineLayer::new(format, out.clone(), clock));
    tracing::subscriber::with_default(subscriber, run);
    out.text()
}

#[test]
fn an_event_is_one_line_with_its_fields() {
    let admit = || tracing::info!(pod = "shop/web-0", cpus = %"2-3", count = 2, "pod admitted");
    assert_eq!(
        logged(LogFormat::Text, "info", admit),
        "time=2026-01-01T00:00:00.250Z level=info target=pinfold_daemon::logging::tests \
         message=\"pod admitted\" pod=shop/web-0 cpus=2-3 count=2\n"
    );
    assert_eq!(
        logged(LogFormat::Json, "info", admit),
        "{\"time\":\"2026-01-01T00:00:00.250Z\",\"level\":\"info\",\"target\":\"pinfold_daemon::logging::tests\",\
         \"message\":\"pod admitted\",\"pod\":\"shop/web-0\",\"cpus\":\"2-3\",\"count\":2}\n"
    );
}

#[test]
fn every_target_has_its_level() {
    let all = || {
        tracing::debug!("own debug");
        tracing::info!("own info");
        tracing::info!(target: "kube_client::client", "other info");
        tracing::warn!(target: "kube_client::client", "other warn");
        tracing::debug!(target: "h2::codec", "named debug");
    };
    for (levels, expected) in [
        ("info", &["own info", "other warn"][..]),
        ("debug", &["own debug", "own info", "other warn"]),
        ("error", &[]),
        ("off", &[]),
        ("h2=debug", &["own info", "other warn", "named debug"]),
        ("off,kube=info", &["other info", "other warn"]),
        ("debug, kube_client=off", &["own debug", "own info"]),
    ] {
        let text = logged(LogFormat::Json, levels, all);
        let lines = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            line["message"].as_str().expect("text").to_owned()
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{levels}");
    }
}

#[test]
fn levels_that_cannot_be_parsed_are_rejected() {
    for bad in [
        "",
        "loud",
        "trace",
        "h2=trace",
        "info,debug",
        "=info",
        "a b=info",
        "h2=",
        "info,",
    ] {
        assert!(bad.parse::<LogLevels>().is_err(), "{bad:?}");
    }
    for good in ["info", "warn,h2=debug", "off,pinfold_agent::daemon=debug"] {
        let levels: LogLevels = good.parse().expect("levels");
        assert_eq!(levels.to_string(), good);
    }
    assert_eq!("info".parse(), Ok(LogLevels::default()));
    assert_eq!("json".parse(), Ok(LogFormat::Json));
    assert_eq!("yaml".parse::<LogFormat>(), Err(LogFormatError));
}

const NASTY: &[&str] = &[
    "",
    "a b",
    "x\nlevel=error message=\"forged\"",
    "\" level=error \"",
    "back\\slash",
    "\u{1b}[31mred\u{7}",
    "line\u{2028}separator\u{202e}turned",
    "{\"a\":1}",
    "ümläut 😀",
];

#[test]
fn no_value_starts_another_line_or_field() {
    for value in NASTY {
        let text = logged(LogFormat::Text, "info", || {
            tracing::info!(first = %value, last = "end", "event");
        });
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.ends_with(" last=end\n"), "{text:?}");
        assert!(!text.trim_end().contains(is_invisible), "{text:?}");
        // Everything between quotes belongs to one value: what is left has only the names of real fields.
        let bare: String = outside_quotes(text.trim_end());
        let names = bare.split(' ').filter_map(|word| word.split('=').next());
        let names: Vec<&str> = names.collect();
        let expected = ["time", "level", "target", "message", "first", "last"];
        assert_eq!(names, expected, "{text:?}");
    }
}

#[test]
fn no_message_starts_another_line_or_field() {
    for value in NASTY {
        let text = logged(LogFormat::Json, "info", || tracing::info!("{value}"));
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["message"], **value);
        assert_eq!(read["level"], "info");
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
fn json_values_are_read_back_unchanged() {
    for value in NASTY {
        let text = logged(LogFormat::Json, "info", || {
            tracing::info!(value, ratio = 0.5, nan = f64::NAN, yes = true, "event");
        });
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["value"], **value);
        assert_eq!(read["ratio"], 0.5);
        assert_eq!(read["nan"], "NaN");
        assert_eq!(read["yes"], true);
    }
}

#[test]
fn a_long_field_is_cut() {
    let long = "ü".repeat(100_000);
    let text = logged(LogFormat::Text, "info", || {
        tracing::info!(%long, last = "end", "event");
    });
    assert!(text.chars().count() < LONGEST_FIELD + 200, "{text}");
    assert!(text.ends_with("ü…\" last=end\n"), "{text}");
}

#[test]
fn a_call_site_that_repeats_itself_is_suppressed_and_counted() {
    let elapsed = Arc::new(AtomicI64::new(0));
    let played = elapsed.clone();
    let clock =
        move || new_year() + jiff::SignedDuration::from_millis(played.load(Ordering::SeqCst));
    let window = i64::try_from(WINDOW.as_millis()).expect("seconds");
    let again = |cause: &str| tracing::warn!(cause, "again");
    let text = logged_by(LogFormat::Text, "info", clock, || {
        for _ in 0..100 {
            again("one");
        }
        // The same message at another call site has its own limit.
        tracing::warn!("again");
        elapsed.store(window - 1, Ordering::SeqCst);
        again("too early");
        elapsed.store(window, Ordering::SeqCst);
        again("in the next window");
        again("and once more");
        // The clock is set back.
        elapsed.store(-window, Ordering::SeqCst);
        again("earlier");
    });
    let written = usize::try_from(LINES_PER_WINDOW).expect("small");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[..written]
            .iter()
            .all(|line| line.ends_with("cause=one")),
        "{text}"
    );
    let expected = [
        "message=again",
        "cause=\"in the next window\" suppressed=81",
        "cause=\"and once more\"",
        "cause=earlier",
    ];
    assert_eq!(lines.len(), written + expected.len(), "{text}");
    for (line, end) in lines[written..].iter().zip(expected) {
        assert!(line.ends_with(end), "{line} {end}");
    }
}
