//! Devices of a plugin that is a process of its own, through the agent into real containers.

use std::fs;
use std::path::Path;

use pinfold_core::cpu_set::CpuSet;

use super::kernel;
use super::options::Options;
use super::oracle;
use super::pods::{ContainerPlan, PodPlan};
use super::process::Agent;
use super::reports;
use super::rules;
use super::scene::Scene;
use super::stage::Stage;
use crate::containerd::cri::{FOREVER, Pod};
use crate::containerd::eventually;
use crate::devices::{PLUGIN, Plugin, Program, RESOURCE, python};
use crate::report::{Report, Runs, Stop, equal};

/// Devices: both on the last NUMA node.
const DEVICES: [&str; 2] = ["card-0", "card-1"];

/// The check that needs several NUMA nodes.
const BESIDE: &str =
    "agent: devices: CPUs are on the NUMA node of the device, or the pod is rejected";

/// Runs the theme: with a plugin in Python on another gRPC, or in an emulated machine with one of our own.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, options: &Options) -> Result<(), Stop> {
    let folder = stage.fresh();
    let sockets = folder.join("device-plugins");
    fs::create_dir_all(folder.join("library")).map_err(|error| error.to_string())?;
    let program = match options.alone {
        true => Program::Own(std::env::current_exe().map_err(|error| error.to_string())?),
        false => {
            let script = folder.join("plugin.py");
            kernel::write(&script, PLUGIN)?;
            Program::Python(python()?, script)
        }
    };
    let mut setup = stage.setup(&folder, &rules::kubelet("single-numa-node", "container"));
    let directory = sockets.display();
    setup.more += &format!("\ndevices: {{managePlugins: true, pluginDirectory: {directory}}}");
    let scene = Scene::with(stage, &setup, &folder)?;
    let (node, cpus) = home()?;
    let start = || {
        let devices = DEVICES.map(|id| format!("{id}:Healthy:{node}"));
        Plugin::start_with(&program, &sockets, &devices, &folder.join("library"))
    };
    let plugin = start()?;
    let mut story = Story {
        scene,
        plugin,
        running: Vec::new(),
    };
    report.check(
        "agent: devices: a container gets its device and what its plugin wants",
        story.given(&folder),
    );
    let runs = match options.alone {
        true => Runs::Must,
        false => Runs::IfPossible,
    };
    report.theme(BESIDE, runs, |report| {
        let (machine, _) = oracle::machine()?;
        if machine.online().is_subset(&cpus) {
            return Err(Stop::Skip("all CPUs are on one NUMA node".to_owned()));
        }
        report.check(BESIDE, story.beside(&cpus));
        Ok(())
    });
    report.check(
        "agent: devices: an unhealthy device is not handed out",
        story.unhealthy(node),
    );
    story.plugin.kill();
    story.plugin = start()?;
    report.check(
        "agent: devices: a plugin that starts again offers what is free, not what is held",
        story.free(1).and_then(|()| story.second()),
    );
    let outcome = story.scene.start_again().and_then(|()| story.free(0));
    report.check(
        "agent: devices: an agent that starts again knows who holds what",
        outcome,
    );
    let outcome = story.leave().and_then(|()| story.free(2));
    report.check("agent: devices: who leaves gives back", outcome);
    let outcome = story.failing();
    report.check(
        "agent: devices: a plugin that fails keeps the pod from starting, and nothing is kept",
        outcome,
    );
    Ok(())
}

/// The last NUMA node with CPUs, and its CPUs.
fn home() -> Result<(u32, CpuSet), String> {
    let (machine, _) = oracle::machine()?;
    let mut nodes = machine.nodes().iter().rev();
    let last = nodes.find(|node| !node.cores.is_empty());
    let last = last.ok_or("no NUMA node has CPUs")?;
    let threads = last.cores.iter().flat_map(|core| core.threads.iter());
    Ok((last.id.get(), threads.copied().collect()))
}

struct Story<'a> {
    scene: Scene<'a>,
    plugin: Plugin,
    running: Vec<(PodPlan, Pod, String)>,
}

fn pod(name: &str, milli: i64, count: u32) -> PodPlan {
    let mut main = ContainerPlan::guaranteed("main", milli, 16);
    if count > 0 {
        main.others.insert(RESOURCE.to_owned(), count.to_string());
    }
    PodPlan::new(name, vec![main])
}

impl Story<'_> {
    fn agent(&self) -> &Agent {
        &self.scene.agent
    }

    /// So many devices are free.
    fn free(&self, count: u32) -> Result<(), String> {
        let name = format!("pinfold_devices{{resource=\"{RESOURCE}\",state=\"free\"}}");
        let mut found = None;
        eventually(&format!("{count} devices are free"), || {
            found = self
                .agent()
                .metrics()
                .ok()
                .and_then(|all| all.get(&name).copied());
            found == Some(f64::from(count))
        })
        .map_err(|problem| format!("{problem}: {found:?}"))
    }

    /// Asks for a pod and runs it: its control group, and its container. One that cannot run gives back what it got.
    fn come(&mut self, plan: &PodPlan) -> Result<(String, String), String> {
        let (code, said) = self.agent().ask("POST", "/v1/pods", &plan.manifest())?;
        equal(&format!("{}: {said}", plan.name), code, 201)?;
        let ran = self.start(plan);
        ran.inspect_err(|_| drop(self.release(plan)))
    }

    fn start(&mut self, plan: &PodPlan) -> Result<(String, String), String> {
        let root = self.scene.stage.runtime.cgroup().to_owned();
        let cri = &self.scene.stage.cri;
        let sandbox = cri.run(plan.sandbox(&root, 0)?)?;
        let main = plan.containers.first().ok_or("no container")?;
        let id = cri.create_as(&sandbox, "main", 0, main.resources(), &FOREVER);
        let id = id.inspect_err(|_| drop(cri.remove(&sandbox)))?;
        cri.start_container(&id)?;
        let group = self.scene.stage.runtime.group(&plan.group(&root)?, &id);
        self.running.push((plan.clone(), sandbox, id.clone()));
        Ok((group, id))
    }

    fn given(&mut self, folder: &Path) -> Result<(), String> {
        self.free(2)?;
        kernel::write(&folder.join("library/file"), "of the plugin")?;
        let (group, id) = self.come(&pod("first", 1000, 1))?;
        let cri = &self.scene.stage.cri;
        // The plugin prefers the last one.
        equal(
            "environment",
            cri.exec(&id, "echo $PLUGIN_DEVICES")?.as_str(),
            DEVICES[1],
        )?;
        let mounted = cri.exec(&id, "busybox cat /usr/lib/plugin/file")?;
        equal("mount", mounted.as_str(), "of the plugin")?;
        let file = cri.exec(&id, "[ -c /dev/plugin0 ] && echo there")?;
        equal("device file", file.as_str(), "there")?;
        let written = cri.exec(&id, "echo x >/usr/lib/plugin/file || echo no")?;
        equal("the mount is read-only", written.as_str(), "no")?;
        let seen = self.scene.stage.groups.look(&group)?;
        equal("CPUs", seen.cpus.len(), 1)?;
        let listed = reports::reader(&self.scene).get("e2e", "first");
        let listed = listed.map_err(|error| error.to_string())?;
        let devices = listed.containers.iter().flat_map(|one| &one.devices);
        let ids: Vec<&String> = devices.flat_map(|device| &device.device_ids).collect();
        equal("devices in the report", ids, vec![&DEVICES[1].to_owned()])
    }

    /// The first pod's CPU is one of these. A pod with a device that needs all of them is rejected, since the first pod
    /// holds one; without the device it is admitted, on another NUMA node.
    fn beside(&mut self, node: &CpuSet) -> Result<(), String> {
        let (plan, _, id) = self.running.first().ok_or("no pod runs")?;
        let root = self.scene.stage.runtime.cgroup();
        let group = self.scene.stage.runtime.group(&plan.group(root)?, id);
        let seen = self.scene.stage.groups.look(&group)?.cpus;
        equal(
            &format!("{seen} is on the NUMA node of the device, {node}"),
            seen.is_subset(node),
            true,
        )?;
        let milli = i64::try_from(node.len()).unwrap_or(0) * 1000;
        for (count, expected) in [(1, 409), (0, 201)] {
            let whole = pod("whole", milli, count);
            let (code, said) = self.agent().ask("POST", "/v1/pods", &whole.manifest())?;
            self.release(&whole)?;
            equal(&format!("{count} devices: {said}"), code, expected)?;
        }
        Ok(())
    }

    fn unhealthy(&mut self, node: u32) -> Result<(), String> {
        let [first, second] = DEVICES;
        self.plugin
            .say(&format!("{first}:Unhealthy:{node} {second}:Healthy:{node}"))?;
        self.free(0)?;
        let rejected = pod("ill", 100, 1);
        let (code, said) = self.agent().ask("POST", "/v1/pods", &rejected.manifest())?;
        equal(&format!("asked for: {said}"), code, 409)
    }

    fn second(&mut self) -> Result<(), String> {
        let (_, id) = self.come(&pod("second", 100, 1))?;
        let got = self.scene.stage.cri.exec(&id, "echo $PLUGIN_DEVICES")?;
        equal("device", got.as_str(), DEVICES[0])
    }

    fn leave(&mut self) -> Result<(), String> {
        for (plan, pod, _) in std::mem::take(&mut self.running) {
            self.scene.stage.cri.remove(&pod)?;
            self.release(&plan)?;
        }
        Ok(())
    }

    fn release(&self, plan: &PodPlan) -> Result<(), String> {
        let path = format!("/v1/pods/{}", plan.uid());
        self.agent().ask("DELETE", &path, "").map(drop)
    }

    fn failing(&mut self) -> Result<(), String> {
        self.plugin.say("fail")?;
        self.plugin.printed("done fail")?;
        let unlucky = pod("unlucky", 100, 1);
        let (code, said) = self.agent().ask("POST", "/v1/pods", &unlucky.manifest())?;
        equal(&format!("asked for: {said}"), code, 503)?;
        let message = said.to_string();
        equal(
            &format!("the plugin's words ({message})"),
            message.contains("out of order"),
            true,
        )?;
        self.free(2)
    }
}
