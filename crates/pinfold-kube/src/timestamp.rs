//! [`Timestamp`]: a time in milliseconds.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 by the caller's clock. For display only: no decision depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time in RFC 3339, to the millisecond: `2026-01-31T13:37:00.250Z`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let text = self.to_string().replacen(' ', "T", 1);
        format!("{text}.{:03}Z", self.0 % 1000)
    }
}

impl From<SystemTime> for Timestamp {
    /// A time before 1970 becomes 0.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Formats `2026-01-31 13:37:00` in UTC. Years begin in March, so that the leap day is the last one.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let text = format!(
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}",
            second % 60
        );
        f.pad(&text)
    }
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
            assert_eq!(Timestamp(seconds * 1000).to_string(), expected);
        }
        assert!(!Timestamp(u64::MAX).to_string().is_empty());
        let exact = Timestamp(1_767_225_600_007).rfc3339();
        assert_eq!(exact, "2026-01-01T00:00:00.007Z");
    }
}
