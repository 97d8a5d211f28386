//! [`Process`]: a process that cannot be mistaken for a later one with the same number.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process id together with the moment the process started, which tells it from a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub started: u64,
}

impl Process {
    /// The process that has this number now; `None` if there is none or it has ended and is only waited for.
    #[must_use]
    pub fn find(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let started = start_of_living(&stat)?;
        Some(Self { pid, started })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }
}

/// The start time in a line of `/proc/PID/stat`, unless the process is a zombie. The name in it may contain anything,
/// parentheses and blanks too, so fields are counted from its last parenthesis.
fn start_of_living(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    // The state is field 3, the start time field 22.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(started)
}

/// Tells this boot of the machine from all others.
#[must_use]
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_hide_the_start_time() {
        let fields = "S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        for name in ["sleep", "a b", ") Z (", "((", ""] {
            let stat = format!("7 ({name}) {fields}");
            assert_eq!(start_of_living(&stat), Some(4711), "{name:?}");
        }
        assert_eq!(start_of_living("7 (sleep) S 1"), None);
        assert_eq!(start_of_living(""), None);
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let stat = "7 (sleep) Z 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(start_of_living(stat), None);
    }

    #[test]
    fn another_process_with_the_same_number_is_another_process() {
        let this = Process::find(std::process::id()).expect("this process runs");
        assert!(this.is_alive());
        let earlier = Process {
            started: this.started - 1,
            ..this
        };
        assert!(!earlier.is_alive());
    }
}
