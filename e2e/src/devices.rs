//! The suite of `pinfold-devices`: the manager with a device plugin that is a process of its own, in another language,
//! on another implementation of gRPC.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use kubelet_api::device_plugin::KUBELET_SOCKET;
use pinfold_core::device::{AllocationAsk, DeviceOffer, DeviceSet, PreferredAllocation};
use pinfold_core::name::ResourceName;
use pinfold_devices::{Config, Grants, Limits, Manager};

use crate::programs::{self, succeed};
use crate::report::{Report, equal, say};

const PLUGIN: &str = include_str!("../scripts/plugin.py");
const RESOURCE: &str = "example.com/gpu";
const GPU: &str = "GPU-fef8089b-4820-abfc-e83e-94318197576e";
const OTHER: &str = "GPU-0";
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the story.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-devices-{}", std::process::id()));
    if let Err(problem) = story(report, &folder) {
        report.check("devices", Err(problem));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn story(report: &mut Report, folder: &Path) -> Result<(), String> {
    let python = python()?;
    let sockets = folder.join("device-plugins");
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let script = folder.join("plugin.py");
    fs::write(&script, PLUGIN).map_err(|error| error.to_string())?;
    let mut config = Config::new(&sockets);
    config.limits = Limits {
        tick: Duration::from_millis(100),
        grace: Duration::from_secs(2),
        ..Limits::default()
    };
    let manager = Manager::start(config).map_err(|error| error.to_string())?;
    let start = |version: &str| Plugin::start(&python, &script, &sockets, version);

    let mut plugin = start("v1beta1")?;
    report.check(
        "devices: a healthy GPU on node 1 is offered",
        offered(&manager, &[(GPU, true), (OTHER, true)]).and_then(|offer| {
            let gpu = offer.get(GPU).and_then(|device| device.numa.clone());
            equal("nodes", gpu, Some(vec![1]))
        }),
    );
    plugin.list(&format!("{GPU}:Unhealthy:1 {OTHER}:Healthy:0"))?;
    report.check(
        "devices: a change of health is offered",
        offered(&manager, &[(GPU, false), (OTHER, true)]).map(drop),
    );
    plugin.list(&format!("{GPU}:Healthy:1 {OTHER}:Healthy:0"))?;
    offered(&manager, &[(GPU, true), (OTHER, true)])?;
    let mut grants = Grants::default();
    report.check(
        "devices: the plugin advises, allocates and prepares",
        given(&manager, &mut plugin, &mut grants),
    );
    plugin.kill();
    report.check(
        "devices: a killed plugin leaves unhealthy devices, then none",
        offered(&manager, &[(GPU, false), (OTHER, false)]).and_then(|_| {
            let gone = next(&manager)?;
            equal("offer after the grace period", gone.is_none(), true)
        }),
    );
    let mut plugin = start("v1beta1")?;
    report.check(
        "devices: a plugin that starts again offers its devices again",
        offered(&manager, &[(GPU, true), (OTHER, true)]).map(drop),
    );
    plugin.told("registered")?;
    fs::remove_file(sockets.join(KUBELET_SOCKET)).map_err(|error| error.to_string())?;
    report.check(
        "devices: a removed socket is made again and the plugin registers again",
        plugin.told("registered").map(drop),
    );
    plugin.kill();
    let mut wrong = start("v1alpha1")?;
    report.check(
        "devices: another version is refused with the kubelet's words",
        wrong.told("refused").and_then(|said| {
            let expected = "refused UNKNOWN requested API version \"v1alpha1\" is not supported by kubelet. \
                            Supported version is [\"v1beta1\"]";
            equal("answer", said.as_str(), expected)
        }),
    );
    Ok(())
}

/// Advice, devices for a container, and its start.
fn given(manager: &Manager, plugin: &mut Plugin, grants: &mut Grants) -> Result<(), String> {
    let resource = ResourceName::from(RESOURCE);
    let available: DeviceSet = [GPU.into(), OTHER.into()].into();
    let ask = AllocationAsk {
        resource: &resource,
        available: &available,
        must_include: &DeviceSet::new(),
        size: 1,
    };
    let advice = manager.advice().preferred(ask)?;
    equal("advice", advice.clone(), Some([GPU.into()].into()))?;
    equal(
        "heard",
        plugin.told("advise")?,
        format!("advise 1 {OTHER},{GPU} "),
    )?;
    let devices = [(resource, advice.unwrap_or_default())].into();
    let (pod, container) = ("pod".into(), "container".into());
    let told = |error: pinfold_devices::PluginError| error.to_string();
    manager
        .allocate(&pod, &container, &devices, grants)
        .map_err(told)?;
    equal("heard", plugin.told("allocate")?, format!("allocate {GPU}"))?;
    let options = grants.options(&pod, &container);
    equal(
        "envs",
        options.envs,
        [("PLUGIN_DEVICES".into(), GPU.into())].into(),
    )?;
    let mount = options
        .mounts
        .first()
        .map(|mount| (mount.host_path.clone(), mount.read_only));
    equal("mount", mount, Some(("/opt/plugin".to_owned(), true)))?;
    let device = options
        .devices
        .first()
        .map(|device| device.permissions.clone());
    equal("device", device, Some("rw".to_owned()))?;
    equal("annotations", options.annotations.len(), 1)?;
    let cdi = options
        .cdi_devices
        .first()
        .map(|device| device.name.clone());
    equal("CDI device", cdi, Some(format!("example.com/gpu={GPU}")))?;
    manager.pre_start(&pod, &container, grants).map_err(told)?;
    equal("heard", plugin.told("start")?, format!("start {GPU}"))
}

fn next(manager: &Manager) -> Result<Option<DeviceOffer>, String> {
    let offer = manager.offers().next(PATIENCE);
    Ok(offer.ok_or("no offer came")?.devices)
}

/// The next offer, which must have these devices with this health.
fn offered(manager: &Manager, expected: &[(&str, bool)]) -> Result<DeviceOffer, String> {
    let offer = next(manager)?.unwrap_or_default();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let found: Vec<(&str, bool)> = offer
        .iter()
        .map(|(id, device)| (id.as_str(), device.healthy))
        .collect();
    equal("devices", found, expected)?;
    Ok(offer)
}

/// A plugin process; it ends with this value.
struct Plugin {
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<String>,
}

impl Plugin {
    fn start(python: &Path, script: &Path, sockets: &Path, version: &str) -> Result<Self, String> {
        let mut process = Command::new(python)
            .arg(script)
            .arg(sockets)
            .args([RESOURCE, version])
            .args([format!("{GPU}:Healthy:1"), format!("{OTHER}:Healthy:0")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", python.display()))?;
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

    /// Makes it list other devices.
    fn list(&mut self, devices: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the plugin has no input")?;
        writeln!(input, "{devices}").map_err(|error| format!("plugin: {error}"))
    }

    /// The next line it prints that begins with this word.
    fn told(&mut self, word: &str) -> Result<String, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let said = self.said.recv_timeout(left);
            let said = said.map_err(|_| format!("the plugin was not heard to say {word:?}"))?;
            if said.starts_with(word) {
                return Ok(said);
            }
        }
    }

    fn kill(&mut self) {
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
fn python() -> Result<PathBuf, String> {
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
