//! The suite of the `nri` crate: plugins with real container runtimes, which run real containers.

mod probe;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_core::cpu_set::CpuSet;
use probe::{LARGE, Probe};

use crate::container_runtime::ContainerRuntime;
use crate::containerd::cri::{Cri, Pod};
use crate::containerd::packages::{self, Release};
use crate::containerd::{Containerd, PATIENCE, eventually};
use crate::programs;
use crate::report::{Report, equal};

/// Runs every scenario with every release.
pub(crate) fn run(report: &mut Report) {
    for release in &packages::RELEASES {
        let folder = std::env::temp_dir().join(format!("pinfold-e2e-nri-{}", std::process::id()));
        if let Err(problem) = one(report, release, &folder) {
            let log = fs::read_to_string(folder.join("containerd.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(15)..].join("\n");
            report.check(release.name, Err(format!("{problem}\n{last}")));
        }
        let _ = fs::remove_dir_all(&folder);
    }
}

/// The CPU that containers are pinned to, and all there are.
struct Cpus {
    one: String,
    all: String,
}

fn cpus() -> Result<Cpus, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or_default();
    let set: CpuSet = list.trim().parse().map_err(|error| format!("{error}"))?;
    match set.iter().last() {
        Some(last) if set.len() > 1 => Ok(Cpus {
            one: last.to_string(),
            all: set.to_string(),
        }),
        _ => Err("two CPUs are needed".to_owned()),
    }
}

fn one(report: &mut Report, release: &Release, folder: &Path) -> Result<(), String> {
    let pin = programs::stripped_example("nri", "pin")?;
    let cpus = cpus()?;
    let fetched = packages::fetch(release)?;
    let (containerd, cri) = Containerd::start(fetched, release.config, folder)?;
    let mut node = Node {
        name: release.name,
        events: release.events,
        cpus,
        containerd,
        cri,
        pods: Vec::new(),
    };
    let outcome = node
        .pin(report, &pin)
        .and_then(|()| node.probe(report))
        .and_then(|()| node.launched(report, &pin));
    let cleaned = node.clean_up();
    outcome.and(cleaned)
}

/// One runtime and what runs on it.
struct Node {
    name: &'static str,
    events: nri::api::Events,
    cpus: Cpus,
    containerd: Containerd,
    cri: Cri,
    pods: Vec<Pod>,
}

/// A plugin's process, which ends with the value.
struct Plugin(Child);

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    fn plugin(&self, program: &Path) -> Result<Plugin, String> {
        let log = fs::File::create(self.containerd.plugins().with_file_name("plugin.log"))
            .map_err(|error| error.to_string())?;
        let registered = self.registered();
        let child = Command::new(program)
            .arg(self.containerd.nri_socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let plugin = Plugin(child);
        eventually("the plugin is synchronized", || {
            self.registered() > registered
        })?;
        Ok(plugin)
    }

    /// How often containerd's log reports the registration of a plugin.
    fn registered(&self) -> usize {
        let log = fs::read_to_string(self.containerd.log()).unwrap_or_default();
        log.matches("synchronizing plugin").count()
    }

    fn check(&self, report: &mut Report, rule: &str, outcome: Result<(), String>) {
        report.check(format_args!("{}: {rule}", self.name), outcome);
    }

    /// Starts a container in a pod of its own.
    fn container(&mut self, annotations: &[(&str, &str)]) -> Result<String, String> {
        let pod = self.cri.run_pod(annotations)?;
        let container = self.cri.start(&pod);
        self.pods.push(pod);
        container
    }

    fn annotated(&mut self) -> Result<String, String> {
        let one = self.cpus.one.clone();
        self.container(&[("cpus.pin.example", &one), ("mems.pin.example", "0")])
    }

    /// The CPUs that the kernel lets a container's processes use.
    fn allowed(&self, container: &str) -> Result<String, String> {
        let script = "busybox grep Cpus_allowed_list: /proc/self/status | busybox cut -f2";
        self.cri.exec(container, script)
    }

    fn is_pinned(&self, container: &str) -> Result<(), String> {
        equal("allowed", &self.allowed(container)?, &self.cpus.one)?;
        let group = self.containerd.cgroup_cpus(container)?;
        equal("cpuset.cpus", &group, &self.cpus.one)
    }

    fn is_everywhere(&self, container: &str) -> Result<(), String> {
        equal("allowed", &self.allowed(container)?, &self.cpus.all)
    }

    /// The example that pins, as a process of its own.
    fn pin(&mut self, report: &mut Report, program: &Path) -> Result<(), String> {
        let plugin = self.plugin(program)?;
        let pinned = self.annotated()?;
        let outcome = self.is_pinned(&pinned).and_then(|()| {
            equal(
                "PINNED",
                self.cri.exec(&pinned, "echo $PINNED")?.as_str(),
                "yes",
            )
        });
        self.check(report, "an annotated container starts on its CPU", outcome);

        let free = self.container(&[])?;
        let outcome = self.is_everywhere(&free);
        self.check(
            report,
            "a container without annotation is left alone",
            outcome,
        );

        let outcome = self
            .cri
            .update(&pinned, &self.cpus.all)
            .and_then(|()| self.is_pinned(&pinned));
        self.check(
            report,
            "a change that the kubelet asks for does not unpin",
            outcome,
        );

        drop(plugin);
        let missed = self.annotated()?;
        let outcome = self.is_everywhere(&missed);
        self.check(
            report,
            "without the plugin containers start unpinned",
            outcome,
        );

        let plugin = self.plugin(program)?;
        let outcome = eventually("the container is pinned", || {
            self.is_pinned(&missed).is_ok()
        });
        self.check(
            report,
            "a plugin that comes back moves what it missed",
            outcome,
        );

        let registered = self.registered();
        self.containerd.stop();
        self.containerd.start_again()?;
        self.containerd.wait_for(&self.cri)?;
        eventually("the plugin is back", || self.registered() > registered)?;
        let outcome = self.annotated().and_then(|id| self.is_pinned(&id));
        self.check(report, "a runtime that restarts is met again", outcome);
        drop(plugin);
        Ok(())
    }

    /// A plugin of this suite, for what no example does.
    fn probe(&mut self, report: &mut Report) -> Result<(), String> {
        let probe = Probe::start(&self.containerd.nri_socket())?;
        let state = probe
            .handle
            .wait_for(PATIENCE, nri::ConnectionState::is_connected);
        let connected = match &state {
            nri::ConnectionState::Connected { runtime } => {
                equal("runtime", &*runtime.name, "containerd")
                    .and_then(|()| equal("events", runtime.events, self.events))
            }
            other => Err(format!("{other:?}")),
        };
        self.check(
            report,
            "the state says when events arrive, and of which kinds",
            connected,
        );

        let pod = self.cri.run_pod(&[("reject", "yes")])?;
        let rejected = match self.cri.create(&pod) {
            Err(problem) if problem.contains("rejected by the probe") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        self.pods.push(pod);
        self.check(
            report,
            "a rejection fails the creation with its reason",
            rejected,
        );

        let large = "x".repeat(LARGE);
        let pod = self.cri.run_pod(&[("large", &large)])?;
        let outcome = self
            .cri
            .start(&pod)
            .and_then(|id| equal("CPUs", &self.allowed(&id)?, &self.cpus.all));
        let sizes = probe.large();
        let outcome = outcome.and_then(|()| match sizes.iter().max() {
            Some(&most) if most >= 2 * LARGE => Ok(()),
            _ => Err(format!("sizes seen: {sizes:?}")),
        });
        self.pods.push(pod);
        self.check(report, "a megabyte goes both ways", outcome);

        let container = self.container(&[])?;
        let update = nri::api::ContainerUpdate::new(&container).cpus(&self.cpus.one);
        let outcome = match probe.handle.update_containers(vec![update]) {
            Ok(failed) if failed.is_empty() => self.is_pinned(&container),
            Ok(failed) => Err(format!("failed: {failed:?}")),
            Err(problem) => Err(problem.to_string()),
        };
        self.check(
            report,
            "a plugin changes a container without an event",
            outcome,
        );

        let pod = self.cri.run_pod(&[("order", "yes")])?;
        self.cri.start(&pod)?;
        self.cri.remove(&pod)?;
        let expected = "run create post-create start post-start stop stop-pod remove remove-pod";
        let done = || probe.order().contains(&"remove-pod".to_owned());
        let _ = eventually("the pod is removed", done);
        let mut order = probe.order();
        // Some events come twice: a removed container is stopped first, even if it is stopped already.
        let mut seen = BTreeSet::new();
        order.retain(|event| seen.insert(event.clone()));
        let outcome = equal("events", order.join(" ").as_str(), expected);
        self.check(report, "every step of a pod's life arrives", outcome);
        probe.stop()
    }

    /// The example that pins, started by the runtime.
    fn launched(&mut self, report: &mut Report, program: &Path) -> Result<(), String> {
        self.containerd.stop();
        let target = self.containerd.plugins().join("10-pin");
        fs::copy(program, &target).map_err(|error| format!("{}: {error}", target.display()))?;
        self.containerd.start_again()?;
        self.containerd.wait_for(&self.cri)?;
        let outcome = self.annotated().and_then(|id| self.is_pinned(&id));
        self.check(
            report,
            "a plugin that the runtime starts does its work",
            outcome,
        );
        Ok(())
    }

    /// Removes all pods, so that no shim stays behind.
    fn clean_up(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        for pod in self.pods.drain(..) {
            outcome = outcome.and(self.cri.remove(&pod));
        }
        std::thread::sleep(Duration::from_millis(200));
        outcome
    }
}
