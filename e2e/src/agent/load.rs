//! Many containers at once, and for long: how long decisions take, and what the agent needs for it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::chance::Chance;
use super::crashes::Crowd;
use super::full_journal::{self, FullJournal};
use super::latency::Latency;
use super::options::Options;
use super::pods::{ContainerPlan, PodPlan};
use super::process;
use super::rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::cri::{FOREVER, Pod};
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal, say};

/// Clients of the runtime at a time.
const CLIENTS: u32 = 4;
/// Containers of a pod.
const TOGETHER: u32 = 10;
/// The most memory that an agent may allocate, in KiB. Pages of its program are not counted: a build without optimisation
/// has three times as many as the one that ships.
const MEMORY: u64 = 8 * 1024;
/// By how much memory may grow in a soak, in KiB: pages that the allocator keeps.
const GROWTH: u64 = 4 * 1024;

/// What an agent used.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    pub(crate) memory: u64,
    /// Milliseconds of CPU time.
    pub(crate) cpu: u64,
    pub(crate) files: usize,
    pub(crate) journal: u64,
}

/// Measurements of a burst of containers.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) containers: u32,
    pub(crate) seconds: f64,
    /// Of decisions while all came at once.
    pub(crate) stormy: Latency,
    /// Of decisions about others who came one after the other while all were there.
    pub(crate) calm: Latency,
    pub(crate) used: Used,
    /// The machine's load averages over one minute before and after. More than its CPUs: others slowed the agent down.
    pub(crate) load: (String, String),
    /// The share of a CPU that the agent used while all were there and nothing happened, in percent.
    pub(crate) at_rest: f64,
}

/// Containers of the burst that is measured.
const BENCH_STORM: u32 = 250;
/// Seconds of container starts and stops that are measured by default.
const BENCH_SOAK: u64 = 600;
/// How long nothing happens while the CPU time of an agent at rest is measured.
const REST: Duration = Duration::from_secs(60);
/// The most CPU time that an agent at rest may use, in percent of a CPU.
const AT_REST: f64 = 0.2;
/// The most memory that may be resident, in KiB.
const RESIDENT: u64 = 40 * 1024;
/// The most milliseconds that 99 of 100 decisions may take: all the time, and while many containers come at once.
const STEADY: f64 = 2.5;
const STORMY: f64 = 5.0;

/// Measures a burst and a soak, and writes them to the page about benchmarks.
pub(crate) fn bench(stage: &mut Stage) -> Result<String, String> {
    let seconds = std::env::var("SOAK")
        .ok()
        .and_then(|text| text.parse().ok());
    let options = Options {
        soak: seconds.unwrap_or(BENCH_SOAK),
        ..Options::default()
    };
    let storm = storm(stage, BENCH_STORM, REST)?;
    say(summary(&storm));
    let full = full_journal::measure(stage, BENCH_STORM)?;
    say(format_args!("{full:?}"));
    let soaked = soaked(stage, &options)?;
    let Soaked { early, late, pods } = &soaked;
    let row = |what: &str, storm: String, early: String, late: String| {
        format!("| {what} | {storm} | {early} | {late} |\n")
    };
    let of = |used: &Used| (used.memory, used.cpu, used.files, used.journal);
    let (stormy, early, late) = (of(&storm.used), of(early), of(late));
    let rows = [
        row(
            "allocated memory, KiB",
            stormy.0.to_string(),
            early.0.to_string(),
            late.0.to_string(),
        ),
        row(
            "CPU time so far, ms",
            stormy.1.to_string(),
            early.1.to_string(),
            late.1.to_string(),
        ),
        row(
            "open files",
            stormy.2.to_string(),
            early.2.to_string(),
            late.2.to_string(),
        ),
        row(
            "journal, bytes",
            stormy.3.to_string(),
            early.3.to_string(),
            late.3.to_string(),
        ),
    ];
    Ok(format!(
        "## The node agent\n\n`make bench-agent` (`SOAK=seconds` for a shorter soak): `pinfold-agent` (release build) with \
         containerd and runc on one machine with 2 CPUs, which they share with what they run. {} containers come at once \
         through {CLIENTS} clients and all move to other CPUs twice; while they are there as many others come and go one \
         after the other; then all go, and pods come and go for {} s, {pods} of them. The machine's load average was {} before \
         and {} after the first part.\n\nHow long decisions took, journal \
         included, by the agent's own histogram (the bounds of its buckets):\n\n| decisions | number | median | 99 of 100 \
         |\n|---|--:|--:|--:|\n{}{}\n{}\n| | with {} containers | soak, after a third | soak, at its end |\n|---|--:|--:|--:|\n{}",
        storm.containers,
        options.soak,
        storm.load.0,
        storm.load.1,
        took("while they come at once", &storm.stormy),
        took("while they are there", &storm.calm),
        goals(&storm, &full),
        storm.containers,
        rows.concat(),
    ))
}

/// Plays both.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, options: &Options) -> Result<(), Stop> {
    let measured = storm(stage, options.storm, Duration::ZERO);
    if let Ok(measured) = &measured {
        say(format_args!("agent: {}", summary(measured)));
    }
    let outcome = measured.and_then(|measured| {
        let memory = measured.used.memory;
        equal(
            &format!("{memory} KiB of memory are few"),
            memory < MEMORY,
            true,
        )
    });
    report.check(
        format_args!(
            "agent: {} containers come at once, make room for another, and go",
            options.storm
        ),
        outcome,
    );
    if options.soak > 0 {
        let outcome = soak(stage, options);
        report.check(
            format_args!(
                "agent: {} s of coming and going leave no memory, files or pods behind",
                options.soak
            ),
            outcome,
        );
    }
    Ok(())
}

/// One line for people.
pub(crate) fn summary(measured: &Measured) -> String {
    let Measured {
        containers,
        seconds,
        stormy,
        calm,
        used,
        at_rest,
        load: _,
    } = measured;
    format!(
        "{containers} containers in {seconds:.1} s: decisions about them {}, about visitors {}; \
         {} KiB of memory, {} ms of CPU time, {} files, journal of {} bytes, {at_rest:.3} % of a CPU at rest",
        shown(stormy),
        shown(calm),
        used.memory,
        used.cpu,
        used.files,
        used.journal
    )
}

/// A row of the page.
fn took(when: &str, latency: &Latency) -> String {
    let (half, most) = (latency.bound(0.5), latency.bound(0.99));
    let count = latency.count();
    format!("| {when} | {count} | {half} ms | {most} ms |\n")
}

fn shown(latency: &Latency) -> String {
    let (half, most) = (latency.bound(0.5), latency.bound(0.99));
    format!("({}) p50 ≤ {half} ms, p99 ≤ {most} ms", latency.count())
}

/// Starts all containers, shrinks and grows the shared pool of all, and stops them.
/// Then nothing happens for a while, in which the agent checks control groups as often as it does by default.
pub(crate) fn storm(stage: &mut Stage, count: u32, rest: Duration) -> Result<Measured, String> {
    let begin = Instant::now();
    let before = load_average()?;
    let folder = stage.fresh();
    let mut setup = stage.setup(&folder, &rules::kubelet("single-numa-node", "container"));
    if !rest.is_zero() {
        setup.more.clear();
    }
    let mut scene = Scene::with(stage, &setup, &folder)?;
    let pods = count.div_ceil(TOGETHER);
    let crews = thread::scope(|scope| {
        let stage = &*scene.stage;
        let crews: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mine = (0..pods).filter(move |pod| pod % CLIENTS == client);
                scope.spawn(move || crew(stage, mine.map(|pod| (pod, most(count, pod)))))
            })
            .collect();
        let ended = crews.into_iter().map(|crew| {
            let ended = crew.join();
            ended.unwrap_or_else(|_| (Vec::new(), Err("a client fell".to_owned())))
        });
        ended.collect::<Vec<_>>()
    });
    let mut outcome = Ok(());
    let mut here = Vec::new();
    for (pods, ended) in crews {
        here.extend(pods);
        outcome = outcome.and(ended);
    }
    let stormy = Latency::so_far(&scene.agent);
    let outcome = outcome.and_then(|()| all_make_room(&mut scene, &here, count));
    let outcome = outcome.and_then(|()| visitors(&mut scene, count));
    let used = used(scene.agent.id(), &scene.setup.state);
    let at_rest = at_rest(scene.agent.id(), rest);
    for (pod, _) in here {
        scene.stage.cri.remove(&pod)?;
    }
    scene.clear()?;
    Ok(Measured {
        containers: count,
        seconds: begin.elapsed().as_secs_f64(),
        stormy: stormy?,
        calm: outcome?,
        used: used?,
        load: (before, load_average()?),
        at_rest: at_rest?,
    })
}

fn load_average() -> Result<String, String> {
    let text = fs::read_to_string("/proc/loadavg").map_err(|error| error.to_string())?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// The share of a CPU that a process uses in this time, in percent.
fn at_rest(process: u32, time: Duration) -> Result<f64, String> {
    if time.is_zero() {
        return Ok(0.0);
    }
    let before = cpu_time(process)?;
    thread::sleep(time);
    Ok((cpu_time(process)? - before).as_secs_f64() / time.as_secs_f64() * 100.0)
}

/// The CPU time of a process, by the scheduler's own count of each thread.
fn cpu_time(process: u32) -> Result<Duration, String> {
    let path = format!("/proc/{process}/task");
    let threads = fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut all = 0;
    for thread in threads.flatten() {
        let stat = thread.path().join("schedstat");
        let text = fs::read_to_string(&stat);
        let text = text.map_err(|error| format!("{}: {error}", stat.display()))?;
        let own = text.split_whitespace().next();
        let own = own.and_then(|first| first.parse::<u64>().ok());
        all += own.ok_or_else(|| format!("{}: {text}", stat.display()))?;
    }
    Ok(Duration::from_nanos(all))
}

/// The goals, and what was measured.
fn goals(storm: &Measured, full: &FullJournal) -> String {
    let met = |met: bool| if met { "yes" } else { "no" };
    let latency = |what: &str, found: f64, goal: f64| {
        format!(
            "| {what} | {goal} ms | {found} ms | {} |\n",
            met(found <= goal)
        )
    };
    let resident = |what: &str, found: u64| {
        let row = format!("resident memory, {what} | {RESIDENT} KiB | {found} KiB");
        format!("| {row} | {} |\n", met(found <= RESIDENT))
    };
    let FullJournal { length, pods, .. } = full;
    let at_rest = storm.at_rest;
    format!(
        "| goal | at most | measured | met |\n|---|--:|--:|---|\n{}{}{}{}| CPU time at rest with {} containers, of one CPU \
         | {AT_REST} % | {at_rest:.3} % | {} |\n\nA *full* agent has {pods} pods and a journal of {length} bytes: it is \
         compacted at 16 MiB.\n",
        latency(
            "99 of 100 decisions, steady",
            storm.calm.bound(0.99),
            STEADY
        ),
        latency(
            "99 of 100 decisions, at once",
            storm.stormy.bound(0.99),
            STORMY
        ),
        resident("full, the most so far", full.peak),
        resident(
            "full, after a restart, the most so far",
            full.peak_after_start
        ),
        storm.containers,
        met(at_rest <= AT_REST),
    )
}

/// How many containers a pod has.
fn most(count: u32, pod: u32) -> u32 {
    count.saturating_sub(pod * TOGETHER).min(TOGETHER)
}

type Crew = (Vec<(Pod, Vec<String>)>, Result<(), String>);

/// One client's pods: sandbox and control groups of each.
fn crew(stage: &Stage, pods: impl Iterator<Item = (u32, u32)>) -> Crew {
    let mut made = Vec::new();
    let outcome = (|| {
        let cri = stage.runtime.connect()?;
        let root = stage.runtime.cgroup();
        for (number, count) in pods {
            let container = |one| ContainerPlan::between(&format!("c{one}"), (20, 0), (0, 0));
            let containers = (0..count).map(container).collect();
            let plan = PodPlan::new(&format!("storm-{number}"), containers);
            let pod = cri.run(plan.sandbox(root, 0)?)?;
            let parent = plan.group(root)?;
            made.push((pod.clone(), Vec::new()));
            for container in &plan.containers {
                let resources = container.resources();
                let id = cri.create_as(&pod, &container.name, 0, resources, &FOREVER)?;
                cri.start_container(&id)?;
                if let Some((_, groups)) = made.last_mut() {
                    groups.push(stage.runtime.group(&parent, &id));
                }
            }
        }
        Ok(())
    })();
    (made, outcome)
}

/// As many again come and go, one after the other, while all others stay. How long was decided about them.
fn visitors(scene: &mut Scene<'_>, count: u32) -> Result<Latency, String> {
    let before = Latency::so_far(&scene.agent)?;
    for number in 0..count {
        let main = ContainerPlan::between("main", (20, 0), (0, 0));
        let plan = PodPlan::new(&format!("visitor-{number}"), vec![main]);
        let root = scene.stage.runtime.cgroup();
        let cri = &scene.stage.cri;
        let pod = cri.run(plan.sandbox(root, 0)?)?;
        let stayed = plan.containers.iter().try_for_each(|container| {
            let id = cri.create_as(&pod, &container.name, 0, container.resources(), &FOREVER)?;
            cri.start_container(&id)
        });
        cri.remove(&pod)?;
        stayed?;
    }
    Ok(Latency::so_far(&scene.agent)?.since(&before))
}

/// Starts and stops one pod with an exclusive CPU: the cpusets of all other containers change twice.
fn all_make_room(
    scene: &mut Scene<'_>,
    here: &[(Pod, Vec<String>)],
    count: u32,
) -> Result<(), String> {
    let groups: Vec<&String> = here.iter().flat_map(|(_, groups)| groups).collect();
    equal(
        "containers",
        u32::try_from(groups.len()).unwrap_or(0),
        count,
    )?;
    let settled = |scene: &Scene<'_>| {
        let shared = scene.oracle.ledger().state().cpus().shared();
        eventually(&format!("every container is on CPUs {shared}"), || {
            groups.iter().all(|group| {
                let seen = scene.stage.groups.look(group);
                seen.is_ok_and(|seen| seen.cpus == *shared && seen.group_cpus == *shared)
            })
        })
    };
    settled(scene)?;
    let own = PodPlan::guaranteed("own", 1000, 16);
    let is_in = scene.come(&own, Known::FromTheRuntime)?;
    equal("own is let in", is_in, true)?;
    settled(scene)?;
    scene.go("own")?;
    settled(scene)
}

/// Memory, CPU time and open files of a process, and the size of its journal.
fn used(process: u32, state: &Path) -> Result<Used, String> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = fields.iter().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|text| text.parse::<u64>().ok()).sum();
    equal("niceness", fields.get(16).copied(), Some("-15"))?;
    let path = format!("/proc/{process}/fd");
    let files = fs::read_dir(&path);
    let files = files.map_err(|error| format!("{path}: {error}"))?.count();
    Ok(Used {
        memory: status_kib(process, "RssAnon:")?,
        // A hundred ticks a second, wherever Linux runs.
        cpu: ticks * 10,
        files,
        journal: process::journal(state)?.len() as u64,
    })
}

/// The resident memory of a process, in KiB.
pub(crate) fn resident(process: u32) -> Result<u64, String> {
    status_kib(process, "VmRSS:")
}

/// A field of the kernel's status of a process, in KiB.
pub(super) fn status_kib(process: u32, field: &str) -> Result<u64, String> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("no {field} in {path}"))
}

/// What an agent used in a soak.
struct Soaked {
    /// After a third of the time.
    early: Used,
    late: Used,
    pods: u32,
}

/// Pods come and go for a while; nothing may be left of them.
fn soak(stage: &mut Stage, options: &Options) -> Result<(), String> {
    let Soaked { early, late, pods } = soaked(stage, options)?;
    say(format_args!(
        "agent: after {pods} pods: {late:?}, at a third of the time {early:?}"
    ));
    let grown = late.memory.saturating_sub(early.memory);
    let summary = format!("memory grew by {grown} KiB, which is little");
    equal(&summary, grown < GROWTH, true)?;
    let summary = format!("{} files were open, {} are", early.files, late.files);
    equal(&summary, late.files <= early.files + 2, true)
}

fn soaked(stage: &mut Stage, options: &Options) -> Result<Soaked, String> {
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules::kubelet("single-numa-node", "container"));
    let agent = stage.agent(&setup, &folder)?;
    let mut crowd = Crowd::new(stage)?;
    let mut chance = Chance::new(options.seed);
    let begin = Instant::now();
    let whole = Duration::from_secs(options.soak);
    let mut early = None;
    while begin.elapsed() < whole {
        crowd.moves(&mut chance);
        agent.status()?;
        agent.metrics()?;
        if early.is_none() && begin.elapsed() > whole / 3 {
            early = Some(used(agent.id(), &setup.state)?);
        }
    }
    let late = used(agent.id(), &setup.state)?;
    crowd.leave();
    eventually("no container is left", || {
        let pods = agent.ask("GET", "/v1/pods", "");
        pods.is_ok_and(|(_, pods)| pods.as_array().is_some_and(Vec::is_empty))
    })?;
    Ok(Soaked {
        early: early.ok_or("the soak was too short")?,
        late,
        pods: crowd.came + crowd.turned_away,
    })
}
