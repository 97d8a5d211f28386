//! [`Process`]: a process id that cannot be confused with a later process of the same id.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process id and the start time of the process, which together identify it even after the id is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its start time in kernel ticks since boot.
    pub started: u64,
}

impl Process {
    /// The process that has this id now; `None` if there is none, or it is a zombie.
    #[must_use]
    pub fn find(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let started = start_unless_zombie(&stat)?;
        Some(Self { pid, started })
    }

    /// Whether it is still running.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }
}

/// Why a process must not be confined together with its descendants: it is init, a kernel thread, or this process or one
/// of its ancestors. `None` if it may be confined or does not exist.
#[must_use]
pub fn reason_not_to_confine(pid: u32) -> Option<&'static str> {
    if pid == 1 {
        return Some("it is init: every process of the machine would be confined");
    }
    if stat_of(pid)?.is_kernel_thread {
        return Some("it is a kernel thread");
    }
    let mut ancestor = std::process::id();
    while ancestor > 1 {
        if ancestor == pid {
            return Some("it is the agent or the parent of the agent");
        }
        ancestor = stat_of(ancestor)?.parent;
    }
    None
}

/// The parts of `/proc/PID/stat` that say where a process belongs.
#[derive(Debug, PartialEq, Eq)]
struct Lineage {
    parent: u32,
    is_kernel_thread: bool,
}

fn stat_of(pid: u32) -> Option<Lineage> {
    lineage(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn lineage(stat: &str) -> Option<Lineage> {
    /// `PF_KTHREAD` of the kernel.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let (_, fields) = stat.rsplit_once(')')?;
    // The parent is field 4, the flags field 9.
    let mut fields = fields.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    Some(Lineage {
        parent,
        is_kernel_thread: flags & KERNEL_THREAD != 0,
    })
}

/// The start time in a line of `/proc/PID/stat`; `None` for a zombie. The process name in it may contain parentheses
/// and blanks, so fields are counted from the last parenthesis.
fn start_unless_zombie(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    // The state is field 3, the start time field 22.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(started)
}

/// The kernel's id of the current boot.
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
    fn a_process_name_with_parentheses_does_not_hide_the_start_time() {
        let fields = "S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        for name in ["sleep", "a b", ") Z (", "((", ""] {
            let stat = format!("7 ({name}) {fields}");
            assert_eq!(start_unless_zombie(&stat), Some(4711), "{name:?}");
        }
        assert_eq!(start_unless_zombie("7 (sleep) S 1"), None);
        assert_eq!(start_unless_zombie(""), None);
    }

    #[test]
    fn kernel_threads_are_known_by_their_flag() {
        let user = lineage("7 (a) b) S 42 1 1 0 -1 4194560 1 0 0").expect("a line");
        assert_eq!((user.parent, user.is_kernel_thread), (42, false));
        let kernel = lineage("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0").expect("a line");
        assert!(kernel.is_kernel_thread);
        assert_eq!(lineage("7 (a) S 1"), None);
    }

    #[test]
    fn init_and_the_ancestors_of_this_process_are_not_confined() {
        assert!(reason_not_to_confine(1).is_some());
        assert!(reason_not_to_confine(std::process::id()).is_some());
        assert!(reason_not_to_confine(std::os::unix::process::parent_id()).is_some());
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("a child");
        assert_eq!(reason_not_to_confine(child.id()), None);
        child.kill().expect("ended");
        child.wait().expect("ended");
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let stat = "7 (sleep) Z 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(start_unless_zombie(stat), None);
    }

    #[test]
    fn a_reused_process_id_is_another_process() {
        let this = Process::find(std::process::id()).expect("this process runs");
        assert!(this.is_alive());
        let earlier = Process {
            started: this.started - 1,
            ..this
        };
        assert!(!earlier.is_alive());
    }
}
