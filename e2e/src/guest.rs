//! A real Linux kernel on an emulated NUMA machine: boots QEMU, runs a script, returns what it said.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::emulated::Emulated;
use crate::initrd::Initrd;
use crate::programs;
use crate::transcript::Transcript;

/// The longest a guest may run. Emulation is slow and the host may be busy; a hung guest is cut off.
const PATIENCE: Duration = Duration::from_secs(600);

/// What makes an emulated kernel quicker: no defence against processors that QEMU does not have, and no long
/// waits when control groups change.
const QUICK: &str = "mitigations=off nokaslr nowatchdog rcupdate.rcu_expedited=1 tsc=reliable";

/// What the guest's first program does before the script: mount what every system has.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
sh /script 2>&1
echo '@@ end'
poweroff -f
";

/// One emulated machine.
pub(crate) struct Guest {
    /// What it is called in reports.
    pub(crate) name: &'static str,
    /// The machine.
    pub(crate) hardware: Emulated,
    /// More for the kernel's command line.
    pub(crate) kernel_options: &'static str,
}

impl Guest {
    /// Boots, runs `script` with `programs` in /bin, and waits for the end.
    pub(crate) fn run(
        &self,
        programs: &[(&str, &Path)],
        script: &str,
    ) -> Result<Transcript, String> {
        let folder =
            std::env::temp_dir().join(format!("pinfold-e2e-{}-{}", self.name, std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let initrd = folder.join("initrd");
        let log = programs::folder().join(format!("{}.log", self.name.replace(' ', "-")));
        let outcome = pack(programs, script)
            .and_then(|bytes| fs::write(&initrd, bytes).map_err(|error| error.to_string()))
            .and_then(|()| File::create(&log).map_err(|error| error.to_string()))
            .and_then(|log| self.boot(&initrd, log));
        let _ = fs::remove_dir_all(&folder);
        outcome
    }

    fn boot(&self, initrd: &Path, log: File) -> Result<Transcript, String> {
        let mut child = Command::new("qemu-system-x86_64")
            .args([
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
                "-serial",
                "stdio",
            ])
            // Without Intel's name the kernel does not see hardware threads of one core.
            .args([
                "-cpu",
                "max,vendor=GenuineIntel,family=6,model=85,stepping=4",
            ])
            .args(self.hardware.arguments())
            .arg("-kernel")
            .arg(kernel()?)
            .arg("-initrd")
            .arg(initrd)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet loglevel=1 panic=-1 {QUICK} {}",
                self.kernel_options
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("qemu-system-x86_64: {error}"))?;
        let output = child.stdout.take().ok_or("QEMU has no output")?;
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let transcript = listen(&receive, log);
        let _ = child.kill();
        let _ = child.wait();
        transcript.map_err(|problem| format!("{problem}; see target/guest/*.log"))
    }
}

/// Collects what the guest says, and notes it with the time in `log` for whoever has to find out why it went wrong.
fn listen(lines: &mpsc::Receiver<String>, mut log: File) -> Result<Transcript, String> {
    let mut transcript = Transcript::default();
    let start = Instant::now();
    loop {
        let Ok(line) = lines.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) else {
            return Err("it did not come to an end".to_owned());
        };
        let _ = writeln!(log, "{:6.1} {line}", start.elapsed().as_secs_f32());
        match line.trim_end_matches('\r') {
            "@@ end" => return Ok(transcript),
            line => transcript.line(line),
        }
    }
}

fn pack(programs: &[(&str, &Path)], script: &str) -> Result<Vec<u8>, String> {
    let mut initrd = Initrd::default();
    for folder in ["bin", "proc", "sys", "dev", "tmp", "run", "etc"] {
        initrd.folder(folder);
    }
    initrd
        .program_from("bin/busybox", Path::new("/bin/busybox"))
        .map_err(|error| error.to_string())?;
    for (name, host) in programs {
        initrd
            .program_from(&format!("bin/{name}"), host)
            .map_err(|error| error.to_string())?;
    }
    initrd.program("init", INIT.as_bytes());
    initrd.program("script", script.as_bytes());
    Ok(initrd.finish())
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
