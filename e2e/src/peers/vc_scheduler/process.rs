//! [`VcScheduler`]: vc-scheduler with its plugin numa-aware.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use pinfold_core::cpu_set::CpuSet;

use crate::cluster::stage::eventually;
use crate::control_plane::{Credentials, Process, free_ports};
use crate::peers::programs::{Program, sources};
use crate::peers::stage::Stage;

/// The name that pods ask for.
pub(super) const NAME: &str = "volcano";

/// The folder of the Go module below `e2e/peers`.
pub(super) const MODULE: &str = "volcano";
pub(super) const VOLCANO: &str = "volcano.sh/volcano";

const PROGRAM: Program = Program {
    name: "vc-scheduler",
    module: MODULE,
    package: "volcano.sh/volcano/cmd/scheduler",
    uses_c: false,
};

/// Its configuration, as in Volcano's guide of the plugin.
pub(super) const CONFIGURATION: &str = r#"actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: numa-aware
    arguments:
      weight: 10
"#;

/// Where its default queue is.
const QUEUE: &str = "/apis/scheduling.volcano.sh/v1beta1/queues/default";

/// A running vc-scheduler. It is killed with this.
pub(super) struct VcScheduler {
    program: PathBuf,
    arguments: Vec<String>,
    process: Process,
    /// What its log has said, up to the byte that was read.
    known: RefCell<(u64, Known)>,
}

/// What the log says.
#[derive(Default)]
struct Known {
    /// The free CPUs of the last Numatopology that it read, by node.
    free: BTreeMap<String, CpuSet>,
    /// How many sessions have ended.
    sessions: usize,
    /// How often it read the Numatopology of each node.
    reads: BTreeMap<String, usize>,
    /// The CPUs that it last chose for a pod, by pod and node.
    chosen: BTreeMap<(String, String), CpuSet>,
}

impl VcScheduler {
    /// Creates Volcano's definitions, except the one that Pinfold has too, and starts the scheduler.
    pub(super) fn start(stage: &Stage) -> Result<Self, String> {
        let program = PROGRAM.build()?;
        let folder = sources(MODULE, VOLCANO)?.join("config/crd/volcano/bases");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut files: Vec<_> = (fs::read_dir(&folder).map_err(failed)?)
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.sort();
        for file in files {
            stage.admin.create(&file)?;
        }
        let config = stage.plane.folder().join("vc-scheduler.yaml");
        fs::write(&config, CONFIGURATION)
            .map_err(|error| format!("{}: {error}", config.display()))?;
        let kubeconfig = stage
            .plane
            .kubeconfig("vc-scheduler", &Credentials::Certificate("admin"))?;
        let [metrics, health] = free_ports()?;
        let arguments = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--scheduler-conf={}", config.display()),
            format!("--listen-address=127.0.0.1:{metrics}"),
            format!("--healthz-address=127.0.0.1:{health}"),
            "--leader-elect=false".to_owned(),
            "--schedule-period=200ms".to_owned(),
            "--plugins-dir=".to_owned(),
            "--cache-dumper=false".to_owned(),
            "--kube-api-qps=5000".to_owned(),
            "--kube-api-burst=5000".to_owned(),
            "--vmodule=numaaware=4,event_handlers=3,scheduler=4".to_owned(),
        ];
        let process = Process::start(&program, stage.plane.folder(), "vc-scheduler", &arguments)?;
        let mut started = Self {
            program,
            arguments,
            process,
            known: RefCell::default(),
        };
        eventually("vc-scheduler has made its queue", || {
            match stage.admin.ask("GET", QUEUE, None)? {
                (200, _) => Ok(()),
                (code, _) if started.process.is_running() => Err(code.to_string()),
                _ => Err(started.process.last_words()),
            }
        })?;
        Ok(started)
    }

    /// Ends it as a crash does, and starts it again.
    pub(super) fn restart(&mut self, stage: &Stage) -> Result<(), String> {
        self.process.kill();
        let folder = stage.plane.folder();
        self.process = Process::start(&self.program, folder, "vc-scheduler", &self.arguments)?;
        Ok(())
    }

    /// The free CPUs of the last Numatopology of this node that it read.
    pub(super) fn free(&self, node: &str) -> Result<Option<CpuSet>, String> {
        self.read()?;
        Ok(self.known.borrow().1.free.get(node).cloned())
    }

    /// How many of its sessions have ended.
    pub(super) fn sessions(&self) -> Result<usize, String> {
        self.read()?;
        Ok(self.known.borrow().1.sessions)
    }

    /// How often it read the Numatopology of this node.
    pub(super) fn reads(&self, node: &str) -> Result<usize, String> {
        self.read()?;
        Ok(self.known.borrow().1.reads.get(node).copied().unwrap_or(0))
    }

    /// The CPUs that it last chose for a pod on a node.
    pub(super) fn chosen(&self, pod: &str, node: &str) -> Result<CpuSet, String> {
        self.read()?;
        let key = (pod.to_owned(), node.to_owned());
        Ok((self.known.borrow().1.chosen.get(&key).cloned()).unwrap_or_default())
    }

    /// Reads what it has logged since the last time.
    fn read(&self) -> Result<(), String> {
        let mut known = self.known.borrow_mut();
        let said = self.process.said_since(known.0)?;
        // A line that is not complete is read again.
        let end = said.rfind('\n').map_or(0, |at| at + 1);
        known.0 += end as u64;
        for line in said[..end].lines() {
            known.1.hear(line)?;
        }
        Ok(())
    }
}

impl Known {
    fn hear(&mut self, line: &str) -> Result<(), String> {
        let cpus = |text: &str| {
            let set = CpuSet::parse(text.trim());
            set.map_err(|error| format!("vc-scheduler logs {line:?}: {error}"))
        };
        let between = |from: &str, to: &str| {
            let (_, rest) = line.split_once(from)?;
            rest.split_once(to).map(|(text, _)| text.to_owned())
        };
        if line.ends_with("End scheduling ...") {
            self.sessions += 1;
        } else if line.contains("resource cpu Allocatable ") {
            let node = between(" on node[", "]");
            if let (Some(free), Some(node)) = (between("Allocatable &{", " "), node) {
                *self.reads.entry(node.clone()).or_default() += 1;
                self.free.insert(node, cpus(&free)?);
            }
        } else if line.contains("resAssignMap: ") {
            let node = between("on node<", ">");
            if let (Some(pod), Some(node)) = (between(" task ", "'s on node<"), node) {
                let chosen = between("map[cpu:", "]").unwrap_or_default();
                self.chosen.insert((pod, node), cpus(&chosen)?);
            }
        }
        Ok(())
    }
}
