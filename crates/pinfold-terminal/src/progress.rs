//! Progress on standard error, shown after one second and erased at the end: a bar of known steps, or what is being done.

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::output;

/// A progress bar of a known number of steps.
pub struct Progress<W: Write> {
    to: W,
    /// The width of the terminal; `None` if the stream is no terminal, which shows nothing.
    columns: Option<usize>,
    total: usize,
    done: usize,
    begun: Instant,
    next: Instant,
    /// The length of the line on the terminal.
    written: usize,
}

/// The time before the bar is shown.
const DELAY: Duration = Duration::from_secs(1);
/// The clock is read once in so many steps.
const STRIDE: usize = 256;
/// The width of a terminal that does not report one.
const DEFAULT_COLUMNS: usize = 80;

impl Progress<Stderr> {
    /// A bar on standard error; nothing is shown if that is no terminal.
    #[must_use]
    pub fn on_stderr(total: usize) -> Self {
        let stderr = io::stderr();
        let columns = stderr
            .is_terminal()
            .then(|| output::columns(&stderr).unwrap_or(DEFAULT_COLUMNS));
        Self::new(stderr, columns, total, Instant::now())
    }
}

impl<W: Write> Progress<W> {
    fn new(to: W, columns: Option<usize>, total: usize, begun: Instant) -> Self {
        Self {
            to,
            columns,
            total,
            done: 0,
            begun,
            next: begun + DELAY,
            written: 0,
        }
    }

    /// Counts one more step.
    pub fn advance(&mut self) {
        self.done += 1;
        if self.columns.is_some() && self.done.is_multiple_of(STRIDE) {
            self.show(Instant::now());
        }
    }

    fn show(&mut self, now: Instant) {
        let Some(columns) = self.columns.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now + DELAY / 5;
        let (done, total) = (self.done, self.total);
        let rate = done as u128 * 1000 / (now - self.begun).as_millis().max(1);
        let bar = "#".repeat(done.min(total) * 40 / total.max(1));
        let mut line = format!("[{bar:<40}] {done} of {total}, {rate} a second");
        // A line that reaches the last column would wrap.
        line.truncate(columns.saturating_sub(1));
        let blanks = self.written.saturating_sub(line.len());
        self.written = line.len();
        let _ = write!(self.to, "\r{line}{:blanks$}", "");
        let _ = self.to.flush();
    }

    /// Erases the bar.
    pub fn end(mut self) {
        if self.written > 0 {
            let _ = write!(self.to, "\r{:1$}\r", "", self.written);
            let _ = self.to.flush();
        }
    }
}

/// Says what is being done and for how long, if it takes more than a second. Erased when it is dropped.
pub struct Activity {
    /// Dropped to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Activity {
    /// An activity on standard error; nothing is shown if that is no terminal.
    #[must_use]
    pub fn on_stderr(what: &str) -> Self {
        let stderr = io::stderr();
        if !stderr.is_terminal() {
            return Self {
                running: None,
                thread: None,
            };
        }
        let columns = output::columns(&stderr).unwrap_or(DEFAULT_COLUMNS);
        let (running, ended) = mpsc::channel::<()>();
        let what = what.to_owned();
        let thread = thread::spawn(move || {
            let mut stderr = io::stderr();
            let mut seconds = 0;
            while ended.recv_timeout(DELAY) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                let line = activity_line(&what, seconds, columns);
                let _ = write!(stderr, "\r{line}");
                let _ = stderr.flush();
            }
            if seconds > 0 {
                let width = activity_line(&what, seconds, columns).chars().count();
                let _ = write!(stderr, "\r{:width$}\r", "");
                let _ = stderr.flush();
            }
        });
        Self {
            running: Some(running),
            thread: Some(thread),
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// `listing pods ... 3 s`, short of the last column, where a terminal would wrap.
fn activity_line(what: &str, seconds: u64, columns: usize) -> String {
    let line = format!("{} ... {seconds} s", crate::escape::escape(what, false));
    line.chars().take(columns.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that a terminal of so many columns shows after `bytes`.
    fn screen(bytes: &[u8], columns: usize) -> Vec<String> {
        let mut lines = vec![vec![' '; columns]];
        let mut column = 0;
        for letter in String::from_utf8_lossy(bytes).chars() {
            match letter {
                '\r' => column = 0,
                letter => {
                    if column == columns {
                        lines.push(vec![' '; columns]);
                        column = 0;
                    }
                    let line = lines.last_mut().expect("there is one");
                    line[column] = letter;
                    column += 1;
                }
            }
        }
        let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
        lines.iter().map(text).collect()
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn the_bar_appears_after_a_second_and_is_erased_at_the_end() {
        for columns in [20, 60, 80, 200] {
            let (mut written, begun) = (Vec::new(), Instant::now());
            let mut progress = Progress::new(&mut written, Some(columns), 1000, begun);
            progress.done = 400;
            progress.show(begun + seconds(0.9));
            assert_eq!(progress.written, 0, "not yet one second");
            progress.show(begun + seconds(1.0));
            assert!(progress.written > 0 && progress.written < columns);
            progress.done = 500;
            progress.show(begun + seconds(1.1));
            progress.show(begun + seconds(1.3));
            let shown = String::from_utf8_lossy(progress.to).into_owned();
            assert!(!shown.contains('\u{1b}'));
            progress.end();
            if columns >= 80 {
                assert!(shown.contains("] 400 of 1000, 400 a second"), "{shown}");
                assert!(shown.ends_with("] 500 of 1000, 384 a second"), "{shown}");
            }
            assert_eq!(screen(shown.as_bytes(), columns).len(), 1, "{shown}");
            assert_eq!(screen(&written, columns), [""]);
        }
    }

    #[test]
    fn nothing_is_written_to_a_pipe() {
        let (mut written, begun) = (Vec::new(), Instant::now());
        let mut progress = Progress::new(&mut written, None, 1000, begun);
        progress.done = 400;
        progress.show(begun + seconds(5.0));
        progress.end();
        assert!(written.is_empty());
    }

    #[test]
    fn an_activity_stays_on_its_line_and_has_no_control_characters() {
        assert_eq!(
            activity_line("searching moves", 3, 80),
            "searching moves ... 3 s"
        );
        assert_eq!(activity_line("searching moves", 3, 10), "searching");
        assert_eq!(activity_line("a\u{1b}[2J", 1, 80), "a\\u001b[2J ... 1 s");
    }
}
