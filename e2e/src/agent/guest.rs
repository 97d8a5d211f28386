//! The suite in an emulated machine of four NUMA nodes, with cgroup v2 and a kernel of its own.

use std::fs;
use std::path::Path;
use std::thread::{self, JoinHandle};

use super::programs;
use crate::containerd::packages;
use crate::guest::{Guest, Load, PATIENCE};
use crate::programs as own;
use crate::report::{Report, is_ci, say};
use crate::transcript::Transcript;

/// Boots it, runs everything there and waits for the end.
pub(crate) fn run(report: &mut Report) {
    start().finish(report);
}

/// A guest that runs in the background. It needs one CPU; the other suites run beside it.
pub(crate) struct Underway(Result<JoinHandle<Result<Transcript, String>>, String>);

/// Boots it. Everything that has to be installed or built for it is there when this returns.
pub(crate) fn start() -> Underway {
    Underway(ready().map(|(guest, load)| {
        say("booting a guest for the agent");
        thread::spawn(move || {
            let ci = if is_ci() { "export CI=true\n" } else { "" };
            let script = format!("{ci}{SCRIPT}e2e agent-inside /{PROGRAMS} {OPTIONS}\n");
            // A check is several containers, each of which takes seconds of a machine that has nothing else to do.
            guest.run_for(4 * PATIENCE, &load, &script)
        })
    }))
}

impl Underway {
    /// Waits for its end, and notes what was checked in there.
    pub(crate) fn finish(self, report: &mut Report) {
        let said = self.0.and_then(|guest| {
            let said = guest.join();
            said.unwrap_or_else(|_| Err("the thread that waits for it has fallen".to_owned()))
        });
        match said.and_then(|said| said.section("agent").map(str::to_owned)) {
            Ok(said) => report.repeat("4 nodes", &said),
            Err(problem) => report.check("agent in a guest", Err(problem)),
        }
    }
}

/// Where the programs are in there.
const PROGRAMS: &str = "programs";

/// Controllers as systemd would hand them on, and huge pages on every node.
const SCRIPT: &str = "
for controller in cpuset cpu pids hugetlb; do
    echo +$controller >/sys/fs/cgroup/cgroup.subtree_control
done
for node in /sys/devices/system/node/node[0-9]*; do
    echo 16 >$node/hugepages/hugepages-2048kB/nr_hugepages
done
# Programs that start a thread for each of 16 CPUs spend an emulated machine's time on waking them.
export GOMAXPROCS=2 TOKIO_WORKER_THREADS=2 PINFOLD_E2E_EMULATED=yes
section() { echo \"@@ section $1\"; }
section agent
";

/// Emulation takes seconds for a container, so the themes that need many of them run with few.
const OPTIONS: &str = "alone brief vectors=8";

/// The machine and everything that it carries.
fn ready() -> Result<(Guest, Load), String> {
    own::install_emulator()?;
    let folder = programs::folder()?;
    let mut load = Load::default();
    // A folder that was made ready has this program as well.
    let ready = Some(folder.join("e2e")).filter(|path| path.exists());
    let e2e = ready.map_or_else(own::stripped_e2e, Ok)?;
    load.program("bin/e2e", &e2e)?;
    for file in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let file = file.map_err(|error| error.to_string())?;
        let name = file.file_name().to_string_lossy().into_owned();
        add(&mut load, &name, &file.path())?;
    }
    let guest = Guest {
        name: "agent",
        hardware: crate::numa::four_node_machine(1024),
        kernel: Some(packages::kernel()?),
        kernel_options: "",
    };
    Ok((guest, load))
}

fn add(load: &mut Load, name: &str, host: &Path) -> Result<(), String> {
    let path = format!("{PROGRAMS}/{name}");
    let is_program = !name.contains('.');
    match is_program {
        true => load.program(&path, host),
        false => {
            load.file(&path, host);
            Ok(())
        }
    }
}
