//! Faults of the disk, the runtime, the journal and of clients of the agent's sockets.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use pinfold_journal::FILE;

use super::chance::Chance;
use super::load::resident;
use super::options::Options;
use super::pods::PodPlan;
use super::process::{self, Agent};
use super::rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::eventually;
use crate::programs::succeed;
use crate::report::{Report, Stop, equal};

/// The exit code of programs whose surroundings are not as they should be.
const ENVIRONMENT: Option<i32> = Some(3);
/// The memory limit of a client that floods the socket, in KiB.
const FLOODED: u64 = 20 * 1024;

type Story = fn(&mut Stage) -> Result<(), String>;

/// Plays every fault.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let stories: [(&str, Story); 8] = [
        (
            "after a restart of the runtime the agent registers again, and no container moves",
            runtime_restarts,
        ),
        (
            "without a runtime it starts, says so, and goes on when there is one",
            no_runtime,
        ),
        (
            "with a full disk every pod is rejected, and terminated pods are released once there is room",
            full_disk,
        ),
        (
            "a state folder that cannot be written ends it with the reason",
            read_only,
        ),
        (
            "the torn end of a journal is cut off, and what runs is found again",
            torn_journal,
        ),
        (
            "a damaged journal ends it, and nothing is handed out",
            damaged_journal,
        ),
        (
            "a runtime that talks nonsense is left and tried again",
            nonsense,
        ),
        (
            "clients that flood the socket do not block other clients",
            flooded,
        ),
    ];
    for (name, story) in stories {
        let outcome = story(stage);
        report.check(format_args!("agent: {name}"), outcome);
    }
    Ok(())
}

fn scene(stage: &mut Stage) -> Result<Scene<'_>, String> {
    Scene::open(stage, &rules::kubelet("single-numa-node", "container"))
}

/// Runs a check with a scene of its own, which is cleared after a failure too.
fn with_scene(
    stage: &mut Stage,
    play: impl FnOnce(&mut Scene<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut scene = scene(stage)?;
    let outcome = play(&mut scene);
    if outcome.is_err() {
        scene.abandon();
    }
    outcome
}

fn come(scene: &mut Scene<'_>, name: &str, milli: i64) -> Result<(), String> {
    let is_in = scene.come(&PodPlan::guaranteed(name, milli, 16), Known::FromTheRuntime)?;
    equal(&format!("{name} is let in"), is_in, true)
}

fn runtime_restarts(stage: &mut Stage) -> Result<(), String> {
    with_scene(stage, |scene| {
        come(scene, "own", 1000)?;
        come(scene, "sharing", 200)?;
        scene.stage.runtime.stop();
        let agent = &scene.agent;
        eventually("the agent misses its runtime", || {
            agent
                .status()
                .is_ok_and(|status| status["runtimeConnected"] == false)
        })?;
        equal(
            "ready without a runtime",
            scene.agent.probe("/readyz")?.0,
            503,
        )?;
        equal(
            "alive without a runtime",
            scene.agent.probe("/healthz")?.0,
            200,
        )?;
        scene.stage.runtime.start_again()?;
        scene.stage.runtime.wait_for(&scene.stage.cri)?;
        scene.agent.wait_until_connected()?;
        scene.check()?;
        come(scene, "later", 300)?;
        scene.clear()?;
        scene.undisturbed()
    })
}

fn no_runtime(stage: &mut Stage) -> Result<(), String> {
    stage.runtime.stop();
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules::kubelet("none", "container"));
    let outcome = Agent::spawn(&stage.agent_program, &setup, &folder).and_then(|mut agent| {
        agent.wait_until_it_answers()?;
        let status = agent.status()?;
        let problems = status["problems"].to_string();
        equal("it says so", problems.contains("not connected"), true)?;
        let pod = PodPlan::guaranteed("early", 1000, 16);
        let (code, said) = agent.ask("POST", "/v1/pods", &pod.manifest())?;
        equal(&format!("a pod is let in: {said}"), code, 201)?;
        Ok(agent)
    });
    stage.runtime.start_again()?;
    stage.runtime.wait_for(&stage.cri)?;
    let mut agent = outcome?;
    agent.wait_until_connected()?;
    eventually("it is ready", || {
        agent.probe("/readyz").is_ok_and(|(code, _)| code == 200)
    })
}

/// A small file system of its own.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k,mode=700", "pinfold-e2e"]);
        succeed(mount.arg(folder))?;
        Ok(Self(folder.to_owned()))
    }

    fn fill(&self) -> Result<(), String> {
        let path = self.0.join("ballast");
        let file = fs::File::create(path).map_err(|error| error.to_string())?;
        // Until it is full, to the last byte.
        for size in [4096, 1] {
            while (&file).write_all(&vec![0; size]).is_ok() {}
        }
        Ok(())
    }

    fn make_room(&self) -> Result<(), String> {
        fs::remove_file(self.0.join("ballast")).map_err(|error| error.to_string())
    }

    fn remount(&self, how: &str) -> Result<(), String> {
        let how = format!("remount,{how}");
        succeed(Command::new("mount").args(["-o", &how]).arg(&self.0))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = succeed(Command::new("umount").arg(&self.0));
    }
}

fn full_disk(stage: &mut Stage) -> Result<(), String> {
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules::kubelet("none", "container"));
    let disk = Disk::mount(&setup.state)?;
    let mut scene = Scene::with(stage, &setup, &folder)?;
    let outcome = (|| {
        come(&mut scene, "before", 1000)?;
        disk.fill()?;
        let pod = PodPlan::guaranteed("full", 300, 16);
        let (code, said) = scene.agent.ask("POST", "/v1/pods", &pod.manifest())?;
        equal(
            &format!("asked for while the disk is full: {said}"),
            code,
            503,
        )?;
        let rejected = scene.come(&pod, Known::FromTheRuntime);
        let message = rejected.err().unwrap_or_default();
        equal(
            &format!("why ({message})"),
            message.contains("the journal could not be written"),
            true,
        )?;
        scene.forget("full");
        equal(
            "ready while the disk is full",
            scene.agent.probe("/readyz")?.0,
            503,
        )?;
        scene.go("before")?;
        disk.make_room()?;
        let agent = &scene.agent;
        eventually("what was held is given back", || {
            let pods = agent.ask("GET", "/v1/pods", "");
            pods.is_ok_and(|(_, pods)| pods.as_array().is_some_and(Vec::is_empty))
        })?;
        come(&mut scene, "after", 1000)?;
        scene.clear()?;
        equal("ready afterwards", scene.agent.probe("/readyz")?.0, 200)
    })();
    scene.abandon();
    drop(scene);
    outcome
}

fn read_only(stage: &mut Stage) -> Result<(), String> {
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules::kubelet("none", "container"));
    let disk = Disk::mount(&setup.state)?;
    stage.agent(&setup, &folder)?.stop()?;
    disk.remount("ro")?;
    let mut agent = Agent::spawn(&stage.agent_program, &setup, &folder)?;
    let ended = agent.wait_for_its_end()?;
    equal("exit code", ended.code(), ENVIRONMENT)?;
    let log = format!("{:?}", agent.log());
    let path = setup.state.display().to_string();
    equal(
        &format!("the folder is named ({log})"),
        log.contains(&path),
        true,
    )?;
    disk.remount("rw")?;
    stage.agent(&setup, &folder).map(drop)
}

fn torn_journal(stage: &mut Stage) -> Result<(), String> {
    with_scene(stage, |scene| {
        come(scene, "own", 1000)?;
        come(scene, "sharing", 200)?;
        scene.agent.kill();
        let path = scene.setup.state.join(FILE);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let journal = process::journal(&scene.setup.state)?;
        // The last entry but half of it, as a power cut leaves it.
        fs::write(&path, &journal[..journal.len() - 40]).map_err(failed)?;
        scene.start_again()?;
        scene.check()?;
        scene.clear()
    })
}

fn damaged_journal(stage: &mut Stage) -> Result<(), String> {
    with_scene(stage, |scene| {
        come(scene, "own", 1000)?;
        scene.agent.kill();
        let path = scene.setup.state.join(FILE);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let whole = fs::read(&path).map_err(failed)?;
        let mut damaged = whole.clone();
        // In the first line after the header, where the whole node is.
        damaged[100] ^= 1;
        fs::write(&path, &damaged).map_err(failed)?;
        let mut agent = Agent::spawn(&scene.stage.agent_program, &scene.setup, &scene.folder)?;
        let ended = agent.wait_for_its_end()?;
        equal("exit code", ended.code(), ENVIRONMENT)?;
        let said = format!("{:?}", agent.log());
        equal(
            &format!("it says what to do ({said})"),
            said.contains("To start with an empty journal"),
            true,
        )?;
        equal(
            "it is left as it is",
            fs::read(&path).map_err(failed)? == damaged,
            true,
        )?;
        fs::write(&path, &whole).map_err(failed)?;
        scene.start_again()?;
        scene.check()?;
        scene.clear()
    })
}

/// A client that is no runtime, on the socket for runtimes.
fn nonsense(stage: &mut Stage) -> Result<(), String> {
    let folder = stage.fresh();
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut setup = stage.setup(&folder, &rules::kubelet("none", "container"));
    setup.nri = folder.join("nonsense.sock");
    let listener = UnixListener::bind(&setup.nri).map_err(|error| error.to_string())?;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    thread::spawn(move || {
        let mut chance = Chance::new(1);
        for stream in listener.incoming().map_while(Result::ok) {
            let call = counted.fetch_add(1, Ordering::Relaxed);
            talk_nonsense(stream, call, &mut chance);
        }
    });
    let mut agent = Agent::spawn(&stage.agent_program, &setup, &folder)?;
    agent.wait_until_it_answers()?;
    eventually("it has called six times", || {
        calls.load(Ordering::Relaxed) > 5
    })?;
    equal(
        "connected",
        agent.status()?["runtimeConnected"].clone(),
        false.into(),
    )?;
    equal("alive", agent.probe("/healthz")?.0, 200)?;
    let memory = resident(agent.id())?;
    equal(
        &format!("memory of {memory} KiB is bounded"),
        memory < 2 * FLOODED,
        true,
    )?;
    equal("exit code", agent.stop()?.code(), Some(0))
}

fn talk_nonsense(mut stream: UnixStream, call: u32, chance: &mut Chance) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = stream.read(&mut [0; 4096]);
    let noise: Vec<u8> = (0..8192)
        .map(|_| u8::try_from(chance.below(256)).unwrap_or(0))
        .collect();
    let frame = |connection: u32, length: u32, rest: &[u8]| {
        let mut frame = connection.to_be_bytes().to_vec();
        frame.extend(length.to_be_bytes());
        frame.extend(rest);
        frame
    };
    let said = match call % 5 {
        0 => noise,
        // A frame that promises 4 GiB.
        1 => frame(1, u32::MAX, &noise),
        // A message of a connection that does not exist.
        2 => frame(77, 100, &noise[..100]),
        // A request that is none.
        3 => frame(1, 10, &[0, 0, 0, 200, 0, 0, 0, 1, 1, 0]),
        // Half of a header.
        _ => vec![0, 0, 0],
    };
    let _ = stream.write_all(&said);
}

/// Many clients that ask for nothing, too much, or never end.
fn flooded(stage: &mut Stage) -> Result<(), String> {
    with_scene(stage, |scene| {
        let before = resident(scene.agent.id())?;
        let socket = scene.agent.socket();
        let is_over = AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            for kind in 0..4_u8 {
                let (socket, is_over) = (&socket, &is_over);
                scope.spawn(move || {
                    let mut held = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        if let Ok(mut stream) = UnixStream::connect(socket) {
                            let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
                            let _ = match kind {
                                0 => stream.write_all(b"GET /v1/sta"),
                                1 => stream.write_all(&[0xff; 65536]),
                                2 => stream.write_all(
                                    b"POST /v1/pods HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n",
                                ),
                                _ => Ok(()),
                            };
                            held.push(stream);
                        }
                        if held.len() > 100 {
                            held.clear();
                        }
                        thread::sleep(Duration::from_millis(2));
                    }
                });
            }
            let outcome = come(scene, "own", 1000).and_then(|()| come(scene, "sharing", 200));
            is_over.store(true, Ordering::Relaxed);
            outcome
        });
        outcome?;
        let agent = &scene.agent;
        eventually("it answers again", || agent.status().is_ok())?;
        let grown = resident(scene.agent.id())?.saturating_sub(before);
        equal(
            &format!("memory grew by {grown} KiB, which is bounded"),
            grown < FLOODED,
            true,
        )?;
        scene.check()?;
        scene.clear()
    })
}
