//! The suite of `pinfold-devices`: the host with a device plugin that is a process of its own, in another language,
//! on another implementation of gRPC.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use kubelet_api::device_plugin::{KUBELET_SOCKET, VERSION};
use pinfold_core::device::{
    AdvertisedDevices, DeviceSet, PreferredAllocation, PreferredAllocationQuery,
};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::{Container, Pod};
use pinfold_core::settings::Settings;
use pinfold_devices::{
    ContainerEdits, DeviceHost, HostConfig, HostError, OfferReceiver, PluginLimits,
    PluginManagerConfig,
};

use crate::plugin::FOLDER;
use crate::programs::{self, succeed};
use crate::report::{Report, equal, say};

pub(crate) const PLUGIN: &str = include_str!("../scripts/plugin.py");
pub(crate) const RESOURCE: &str = "example.com/gpu";
const GPU: &str = "GPU-fef8089b-4820-abfc-e83e-94318197576e";
const OTHER: &str = "GPU-0";
const POD: &str = "pod";
const CONTAINER: &str = "container";
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the story.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-devices-{}", std::process::id()));
    if let Err(problem) = story(report, &folder) {
        report.check("devices", Err(problem));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn host(folder: &Path) -> Result<(DeviceHost, OfferReceiver), String> {
    let mut manager = PluginManagerConfig::new(folder.join("device-plugins"));
    manager.limits = PluginLimits {
        tick: Duration::from_millis(100),
        grace: Duration::from_secs(2),
        ..PluginLimits::default()
    };
    let config = HostConfig {
        manager,
        checkpoint: folder.join("checkpoint"),
        pod_resources: None,
    };
    DeviceHost::start(config).map_err(|error| error.to_string())
}

fn story(report: &mut Report, folder: &Path) -> Result<(), String> {
    let python = python()?;
    let sockets = folder.join("device-plugins");
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let script = folder.join("plugin.py");
    fs::write(&script, PLUGIN).map_err(|error| error.to_string())?;
    let (mut agent, mut offers) = host(folder)?;
    let start = |version: &str| Plugin::start(&python, &script, &sockets, version);

    let mut plugin = start(VERSION)?;
    report.check(
        "devices: a healthy GPU on node 1 is offered by a plugin that names its socket",
        offered(&offers, &[(GPU, true), (OTHER, true)]).and_then(|offer| {
            let gpu = offer.get(GPU).and_then(|device| device.numa.clone());
            equal("nodes", gpu, Some(vec![1]))
        }),
    );
    plugin.say(&format!("{GPU}:Unhealthy:1 {OTHER}:Healthy:0"))?;
    report.check(
        "devices: an unhealthy device is not handed out",
        offered(&offers, &[(GPU, false), (OTHER, true)])
            .and_then(|offer| handed_out(&agent, offer, 2, &[OTHER])),
    );
    plugin.say(&format!("{GPU}:Healthy:1 {OTHER}:Healthy:0"))?;
    report.check(
        "devices: a healthy one is, and the plugin's advice is heard",
        offered(&offers, &[(GPU, true), (OTHER, true)])
            .and_then(|offer| handed_out(&agent, offer, 1, &[GPU])),
    );
    report.check(
        "devices: advice keeps what must be included",
        advised(&agent, &mut plugin),
    );
    report.check(
        "devices: the plugin allocates and prepares",
        given(&agent, &mut plugin),
    );
    report.check(
        "devices: a failing Allocate fails the pod and keeps nothing",
        rejected(&agent, &mut plugin),
    );
    report.check(
        "devices: a flood of lists takes no memory, and the last one counts",
        flooded(&offers, &mut plugin),
    );
    drop(agent);
    (agent, offers) = host(folder)?;
    report.check(
        "devices: a restarted host knows what was given, and its plugins register again",
        next(&offers)
            .and_then(|known| equal("devices", known, Some(AdvertisedDevices::new())))
            .and_then(|()| offered(&offers, &[(GPU, true), (OTHER, true)]))
            .and_then(|_| check_edits(&agent.edits(&POD.into(), &CONTAINER.into()))),
    );
    plugin.kill();
    report.check(
        "devices: a killed plugin leaves unhealthy devices, then none",
        offered(&offers, &[(GPU, false), (OTHER, false)]).and_then(|_| {
            let gone = next(&offers)?;
            equal("offer after the grace period", gone.is_none(), true)
        }),
    );
    let mut plugin = start(VERSION)?;
    report.check(
        "devices: a plugin that starts again offers its devices again",
        offered(&offers, &[(GPU, true), (OTHER, true)]).map(drop),
    );
    plugin.printed("registered")?;
    fs::remove_file(sockets.join(KUBELET_SOCKET)).map_err(|error| error.to_string())?;
    report.check(
        "devices: a removed socket is made again and the plugin registers again",
        plugin.printed("registered").map(drop),
    );
    plugin.kill();
    let mut wrong = start("v1alpha1")?;
    report.check(
        "devices: another version is rejected with the kubelet's words",
        wrong.printed("rejected").and_then(|said| {
            let expected = "rejected UNKNOWN requested API version \"v1alpha1\" is not supported by kubelet. \
                            Supported version is [\"v1beta1\"]";
            equal("answer", said.as_str(), expected)
        }),
    );
    Ok(())
}

/// A ledger with this offer gives these devices to a pod that asks for one; a pod that asks for all `count` and gets
/// fewer is rejected.
fn handed_out(
    agent: &DeviceHost,
    offer: AdvertisedDevices,
    count: i64,
    expected: &[&str],
) -> Result<(), String> {
    let hardware = pinfold_hardware::open("2 sockets, 4 cores").map_err(|e| e.to_string())?;
    let (machine, _) = hardware.machine_within_reach().map_err(|e| e.to_string())?;
    let rules = Rules::new(Arc::new(machine), Settings::default()).map_err(|e| e.to_string())?;
    let mut ledger = Ledger::new(Arc::new(rules));
    ledger.set_devices(RESOURCE.into(), Some(offer));
    let mut asks = |uid: &str, count: i64| {
        let pod = Arc::new(pod(uid, count));
        let admission = ledger.admit(&pod, &mut agent.preferences());
        let admission = admission.map_err(|error| error.to_string())?;
        let held = ledger.state().devices();
        let held = held.container(&pod.uid, &pod.containers[0].name).cloned();
        let held = held.unwrap_or_default().remove(RESOURCE);
        Ok::<_, String>((admission.decision.is_admitted(), held.unwrap_or_default()))
    };
    if count > 1 {
        equal("a pod that asks for all", asks("all", count)?.0, false)?;
    }
    let expected: DeviceSet = expected.iter().map(|&id| id.into()).collect();
    equal("devices of a pod", asks("one", 1)?, (true, expected))
}

fn pod(uid: &str, count: i64) -> Pod {
    let list = [(RESOURCE.into(), count.into())];
    Pod {
        uid: uid.into(),
        name: String::new(),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: list.clone().into(),
            limits: list.into(),
        }],
        pod_requests: None,
        pod_limits: None,
    }
}

/// The plugin prefers the last of its devices, but the first must be included.
fn advised(agent: &DeviceHost, plugin: &mut Plugin) -> Result<(), String> {
    let resource = ResourceName::from(RESOURCE);
    let available: DeviceSet = [GPU.into(), OTHER.into()].into();
    let must_include: DeviceSet = [OTHER.into()].into();
    let ask = PreferredAllocationQuery {
        resource: &resource,
        available: &available,
        must_include: &must_include,
        size: 1,
    };
    let advice = agent.preferences().preferred(ask)?;
    equal("advice", advice, Some(must_include.clone()))?;
    let heard = format!("advise 1 {OTHER},{GPU} {OTHER}");
    plugin.printed(&heard).map(drop)
}

/// Devices for a container, and its start.
fn given(agent: &DeviceHost, plugin: &mut Plugin) -> Result<(), String> {
    let devices = [(RESOURCE.into(), [GPU.into()].into())].into();
    let (pod, container): (PodUid, ContainerName) = (POD.into(), CONTAINER.into());
    let edits = agent.allocate(&pod, &container, &devices);
    let edits = edits.map_err(|error| error.to_string())?;
    equal(
        "heard",
        plugin.printed("allocate")?,
        format!("allocate {GPU}"),
    )?;
    check_edits(&edits)?;
    let prepared = agent.pre_start(&pod, &container);
    prepared.map_err(|error| error.to_string())?;
    equal("heard", plugin.printed("start")?, format!("start {GPU}"))
}

/// What the plugin wants in a container that has the GPU.
fn check_edits(edits: &ContainerEdits) -> Result<(), String> {
    let expected = [("PLUGIN_DEVICES".into(), GPU.into())].into();
    equal("envs", edits.envs.clone(), expected)?;
    let mount = edits.mounts.first();
    let mount = mount.map(|mount| (mount.host_path.clone(), mount.read_only));
    equal("mount", mount, Some(("/opt/plugin".to_owned(), true)))?;
    let device = edits.devices.first();
    let device = device.map(|device| device.permissions.clone());
    equal("device", device, Some("rw".to_owned()))?;
    equal("annotations", edits.annotations.len(), 1)?;
    let cdi = edits.cdi_devices.first();
    let cdi = cdi.map(|device| device.name.clone());
    equal("CDI device", cdi, Some(format!("example.com/gpu={GPU}")))?;
    equal("conflicts", edits.conflicts.len(), 0)
}

fn rejected(agent: &DeviceHost, plugin: &mut Plugin) -> Result<(), String> {
    plugin.say("fail")?;
    plugin.printed("done fail")?;
    let devices = [(RESOURCE.into(), [OTHER.into()].into())].into();
    let (pod, container): (PodUid, ContainerName) = ("unlucky".into(), CONTAINER.into());
    let failed = match agent.allocate(&pod, &container, &devices) {
        Err(HostError::Plugin(error)) => error.to_string(),
        other => format!("{other:?}"),
    };
    let expected = format!("Allocate of the device plugin for {RESOURCE} failed: out of order");
    equal("answer", failed, expected)?;
    let kept = agent.edits(&pod, &container);
    equal("kept", kept, ContainerEdits::default())?;
    plugin.say("work")?;
    plugin.printed("done work").map(drop)
}

/// Thousands of lists of many devices while no offer is taken.
fn flooded(offers: &OfferReceiver, plugin: &mut Plugin) -> Result<(), String> {
    let many: Vec<String> = (0..200).map(|i| format!("d{i}:Healthy:0")).collect();
    let before = resident()?;
    plugin.say(&format!("flood 2000 {}", many.join(" ")))?;
    plugin.printed("done flood")?;
    plugin.say(&format!("{GPU}:Healthy:1 {OTHER}:Healthy:0"))?;
    while next(offers)?.is_none_or(|devices| devices.len() != 2) {}
    let grown = resident()?.saturating_sub(before);
    match grown < 16 * 1024 {
        true => Ok(()),
        false => Err(format!("{grown} KiB more are in memory")),
    }
}

/// The memory of this process, in KiB.
fn resident() -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| "no VmRSS in /proc/self/status".to_owned())
}

fn next(offers: &OfferReceiver) -> Result<Option<AdvertisedDevices>, String> {
    let offer = offers.recv_timeout(PATIENCE);
    offer
        .map(|(_, devices)| devices)
        .map_err(|_| "no offer came".to_owned())
}

/// The next offer, which must have these devices with this health.
fn offered(offers: &OfferReceiver, expected: &[(&str, bool)]) -> Result<AdvertisedDevices, String> {
    let offer = next(offers)?.unwrap_or_default();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let found: Vec<(&str, bool)> = offer
        .iter()
        .map(|(id, device)| (id.as_str(), device.healthy))
        .collect();
    equal("devices", found, expected)?;
    Ok(offer)
}

fn command(
    python: &Path,
    script: &Path,
    sockets: &Path,
    version: &str,
    devices: &[String],
) -> Command {
    let mut command = Command::new(python);
    command
        .arg(script)
        .arg(sockets)
        .args([RESOURCE, version])
        .args(devices);
    command
}

/// The program of a plugin.
pub(crate) enum Program {
    /// A Python with grpcio, and the script.
    Python(PathBuf, PathBuf),
    /// This program: `device-plugin`.
    Own(PathBuf),
}

/// A plugin process; it ends with this value.
pub(crate) struct Plugin {
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<String>,
}

impl Plugin {
    fn start(python: &Path, script: &Path, sockets: &Path, version: &str) -> Result<Self, String> {
        let devices = [format!("{GPU}:Healthy:1"), format!("{OTHER}:Healthy:0")];
        let mut command = command(python, script, sockets, version, &devices);
        Self::spawn(&mut command)
    }

    /// A plugin with these devices, which wants a folder of this machine mounted and no CDI device.
    pub(crate) fn start_with(
        program: &Program,
        sockets: &Path,
        devices: &[String],
        folder: &Path,
    ) -> Result<Self, String> {
        let mut command = match program {
            Program::Python(python, script) => command(python, script, sockets, VERSION, devices),
            Program::Own(own) => {
                let mut command = Command::new(own);
                command.arg("device-plugin").arg(sockets).arg(RESOURCE);
                command.args(devices);
                command
            }
        };
        command.env(FOLDER, folder).env("PLUGIN_CDI", "no");
        Self::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Result<Self, String> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let output = process.stdout.take().ok_or("the plugin has no output")?;
        let (line, said) = mpsc::channel();
        thread::spawn(move || {
            for said in BufReader::new(output).lines().map_while(Result::ok) {
                if line.send(said).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            input: process.stdin.take(),
            process,
            said,
        })
    }

    /// Writes a line to its input.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the plugin has no input")?;
        writeln!(input, "{line}").map_err(|error| format!("plugin: {error}"))
    }

    /// The next line it prints that begins with these words.
    pub(crate) fn printed(&mut self, words: &str) -> Result<String, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let said = self.said.recv_timeout(left);
            let said = said.map_err(|_| format!("the plugin was not heard to say {words:?}"))?;
            if said.starts_with(words) {
                return Ok(said);
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A Python that has grpcio, in an environment of its own.
pub(crate) fn python() -> Result<PathBuf, String> {
    let folder = programs::tools().join("python");
    let python = folder.join("bin/python");
    let has_grpc = Command::new(&python)
        .args(["-c", "import grpc"])
        .stderr(Stdio::null())
        .status();
    if has_grpc.is_ok_and(|status| status.success()) {
        return Ok(python);
    }
    say("fetching grpcio");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", "grpcio==1.66.0"]))?;
    Ok(python)
}
