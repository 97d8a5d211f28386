//! A real Linux kernel on an emulated NUMA machine: boots QEMU, runs a script, returns its output.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::emulated::Emulated;
use crate::programs;
use crate::report::say;
use crate::transcript::Transcript;

mod initrd;
mod load;
mod modules;
mod server;

pub(crate) use load::Load;
pub(crate) use server::Server;

/// The longest a guest usually may run. Emulation is slow and the host may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// A guest whose pulse is older than this hangs.
const PULSELESS: Duration = Duration::from_secs(90);

/// How often a guest is booted if it hangs: the emulator is not what is tested here.
const BOOTS: u32 = 3;

/// What makes an emulated kernel quicker: no defence against processors that QEMU does not have, and no long
/// waits when control groups change.
const QUICK: &str = "mitigations=off nokaslr nowatchdog rcupdate.rcu_expedited=1 tsc=reliable";

/// One emulated machine.
pub(crate) struct Guest {
    /// What it is called in reports.
    pub(crate) name: &'static str,
    /// The machine.
    pub(crate) hardware: Emulated,
    /// Its kernel; the installed one if none.
    pub(crate) kernel: Option<PathBuf>,
    /// More for the kernel's command line.
    pub(crate) kernel_options: &'static str,
}

/// Why there is no transcript.
enum Trouble {
    /// The emulator or its kernel hangs.
    StandsStill,
    /// Anything else.
    Other(String),
}

impl Guest {
    /// Boots, runs `script` with what is there, and waits for the end.
    pub(crate) fn run(&self, load: &Load, script: &str) -> Result<Transcript, String> {
        self.run_for(PATIENCE, load, script)
    }

    /// The same with another timeout: the console may be silent for a quarter of it.
    pub(crate) fn run_for(
        &self,
        patience: Duration,
        load: &Load,
        script: &str,
    ) -> Result<Transcript, String> {
        let folder =
            std::env::temp_dir().join(format!("pinfold-e2e-{}-{}", self.name, std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let initrd = folder.join("initrd");
        let packed = self
            .kernel()
            .and_then(|kernel| load.pack(&kernel, script))
            .and_then(|bytes| fs::write(&initrd, bytes).map_err(|error| error.to_string()));
        let outcome = packed.and_then(|()| self.boot_until_it_goes(&initrd, patience));
        let _ = fs::remove_dir_all(&folder);
        outcome
    }

    /// Boots again if the emulator hangs, and reports every such boot.
    fn boot_until_it_goes(&self, initrd: &Path, patience: Duration) -> Result<Transcript, String> {
        for boot in 1..=BOOTS {
            match self.boot(initrd, patience) {
                Ok(transcript) => return Ok(transcript),
                Err(Trouble::StandsStill) => {
                    say(format_args!("{}: boot {boot} stands still", self.name));
                }
                Err(Trouble::Other(problem)) => {
                    let ends = [self.file("log"), self.file("pulse")].map(|path| end_of(&path));
                    return Err(format!("{problem}\n{}", ends.join("\n")));
                }
            }
        }
        Err(format!("the emulator stood still {BOOTS} times"))
    }

    /// The kernel it runs.
    fn kernel(&self) -> Result<PathBuf, String> {
        self.kernel.clone().map_or_else(kernel, Ok)
    }

    /// A log file of the last boot.
    fn file(&self, kind: &str) -> PathBuf {
        programs::folder().join(format!("{}.{kind}", self.name.replace(' ', "-")))
    }

    /// The emulator with this machine, its console at our end of a pipe.
    fn emulator(&self, initrd: &Path) -> Result<Command, String> {
        let mut emulator = Command::new("qemu-system-x86_64");
        emulator
            .args(["-nodefaults", "-no-reboot", "-display", "none"])
            .args(["-serial", "stdio", "-serial"])
            .arg(format!("file:{}", self.file("pulse").display()))
            // Without Intel's name the kernel does not see hardware threads of one core.
            .args([
                "-cpu",
                "max,vendor=GenuineIntel,family=6,model=85,stepping=4",
            ])
            .args(self.hardware.arguments())
            .arg("-kernel")
            .arg(self.kernel()?)
            .arg("-initrd")
            .arg(initrd)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet loglevel=1 panic=-1 {QUICK} {}",
                self.kernel_options
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        Ok(emulator)
    }

    fn boot(&self, initrd: &Path, patience: Duration) -> Result<Transcript, Trouble> {
        let other = |error: &dyn std::fmt::Display| Trouble::Other(error.to_string());
        let log = File::create(self.file("log")).map_err(|error| other(&error))?;
        let _ = fs::remove_file(self.file("pulse"));
        let mut child = self
            .emulator(initrd)
            .map_err(Trouble::Other)?
            .spawn()
            .map_err(|error| Trouble::Other(format!("qemu-system-x86_64: {error}")))?;
        let output = child.stdout.take().expect("it was asked for");
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let transcript = listen(&receive, log, patience);
        let _ = child.kill();
        let _ = child.wait();
        transcript.map_err(|silence| match age(&self.file("pulse")) {
            Some(age) if age < PULSELESS => Trouble::Other(silence),
            _ => Trouble::StandsStill,
        })
    }
}

/// Collects the console output of the guest, and writes it with the time to `log`.
fn listen(
    lines: &mpsc::Receiver<String>,
    mut log: File,
    patience: Duration,
) -> Result<Transcript, String> {
    let mut transcript = Transcript::default();
    let start = Instant::now();
    loop {
        let left = patience.saturating_sub(start.elapsed());
        let Ok(line) = lines.recv_timeout(left.min(patience / 4)) else {
            return Err("it did not come to an end".to_owned());
        };
        let _ = writeln!(log, "{:6.1} {line}", start.elapsed().as_secs_f32());
        match line.trim_end_matches('\r') {
            "@@ end" => return Ok(transcript),
            line => transcript.line(line),
        }
    }
}

/// How long ago a file was last written.
fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

/// The last lines of a file, for people.
fn end_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(25)..].join("\n  ");
    format!("  end of {}:\n  {last}", path.display())
}

/// The newest installed kernel.
pub(crate) fn kernel() -> Result<PathBuf, String> {
    let entries = fs::read_dir("/boot").map_err(|error| format!("/boot: {error}"))?;
    let mut kernels: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .map(|name| name.to_string_lossy())
                // The kernel for clouds has no emulated NUMA nodes.
                .is_some_and(|name| name.starts_with("vmlinuz-") && !name.contains("cloud"))
        })
        .collect();
    kernels.sort();
    kernels
        .pop()
        .ok_or_else(|| "no kernel in /boot: install linux-image-amd64".to_owned())
}
