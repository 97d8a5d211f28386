//! Parses booleans and durations as Go's standard library does.

use std::time::Duration;

/// Parses a boolean as `strconv.ParseBool` does.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a duration as `time.ParseDuration` does, such as `1h30m` or `1.5s`; `None` also for negative ones.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        nanos = nanos.checked_add(decimal(number)?.checked_mul(unit_nanos(unit)?)? / SCALE)?;
        rest = after;
    }
    let nanos = i64::try_from(nanos)
        .ok()
        .and_then(|nanos| u64::try_from(nanos).ok())?;
    Some(Duration::from_nanos(nanos))
}

/// The number of digits after the point that count.
const SCALE: i128 = 1_000_000_000_000;

/// Parses a number such as `1.5`, times [`SCALE`].
fn decimal(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.len() + fraction.len() == 0 || whole.len() > 19 || fraction.contains('.') {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain("000000000000".chars())
        .take(12)
        .collect();
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction: i128 = digits.parse().ok()?;
    whole.checked_mul(SCALE)?.checked_add(fraction)
}

fn unit_nanos(unit: &str) -> Option<i128> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_parsed_as_go_does() {
        for (text, expected) in [
            ("10s", Some(Duration::from_secs(10))),
            ("1h30m", Some(Duration::from_secs(5400))),
            ("1.5s", Some(Duration::from_millis(1500))),
            (".5s", Some(Duration::from_millis(500))),
            ("5.s", Some(Duration::from_secs(5))),
            ("0", Some(Duration::ZERO)),
            ("100us", Some(Duration::from_micros(100))),
            ("1µs", Some(Duration::from_micros(1))),
            ("", None),
            ("10", None),
            ("s", None),
            (".s", None),
            ("-1s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("9999999999h", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_duration_parser_panic(text in "[0-9.a-zµ+-]{0,30}") {
            let _ = duration(&text);
        }
    }
}
