//! Random histories of a node: a played kubelet, runtime, API server and disk drive the NRI plugin as production does, and
//! a [model](model) says what must hold after every step.
//!
//! `PINFOLD_CASES=N` runs more histories than the default, `PINFOLD_SEED=N` others. A failing history is shortened and
//! printed as the script of a test: see [`scripts`].

mod api_server;
mod inspection;
mod kubelet_cpus;
mod model;
mod played_node;
mod pod_specs;
mod rules;
mod scripts;

use std::panic::{AssertUnwindSafe, catch_unwind};

use played_node::PlayedNode;

/// Number of pods in a history.
const PODS: u8 = 7;
/// Number of histories without `PINFOLD_CASES`.
const HISTORIES: u64 = 500;
/// Number of steps of a history.
const STEPS: usize = 30;

/// The kind of runtime, whether there is an API server, and who pins containers at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setup {
    runtime: Runtime,
    /// Whether pod specs and phases arrive from an API server.
    api_server: bool,
    /// Whether the kubelet's static CPU manager pins containers until the agent takes the node over.
    takeover: bool,
    /// Whether pods are admitted by Koordinator's rules instead of the kubelet's.
    koordinator: bool,
}

/// What a runtime lists when a plugin connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    /// Lists sandboxes that are not ready, with pid 0; blocks requests while a plugin connects.
    Containerd,
    /// Lists sandboxes that are not ready like others, with pid 0 for all of them, and no container that is being created.
    CriO,
}

/// One event in a history. The first number is a pod, the second one of its containers. A step that cannot happen in the
/// current state does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The kubelet creates the pod's sandbox.
    Run(u8),
    /// The kubelet creates the pod's sandbox, and the agent gets no event of it: it connected in between.
    RunUnseen(u8),
    /// The runtime asks the plugins about a new container.
    Create(u8, u8),
    /// The runtime has created the container.
    Created(u8, u8),
    /// The container starts.
    Start(u8, u8),
    /// The process of a container ends: it completed, crashed, or was stopped.
    Exit(u8, u8),
    /// The kubelet removes a container that ended.
    RemoveContainer(u8, u8),
    /// The pause process dies: the kubelet stops the sandbox and its containers, and will make a new sandbox.
    PauseDies(u8),
    /// The pod completes: its sandbox is stopped and stays.
    Complete(u8),
    /// The pod is deleted: its sandbox is stopped.
    Delete(u8),
    /// The kubelet removes the oldest sandbox of the pod that is stopped.
    RemoveSandbox(u8),
    /// The kubelet gives a running container a CPU more in place.
    Resize(u8, u8),
    /// The kubelet gives a running container half of its CPUs in place.
    Shrink(u8, u8),
    /// The API server deletes the pod while it runs: it was forced to, or the kubelet is down.
    Vanish(u8),
    /// The next watch event arrives, or the first list.
    Watch,
    /// The last watch event arrives again.
    WatchAgain,
    /// All watch events arrive.
    WatchAll,
    /// The agent is killed.
    Kill,
    /// The agent starts and connects.
    StartAgent,
    /// The runtime restarts: the agent connects again.
    RestartRuntime,
    /// One of the sets of offline CPUs.
    Offline(u8),
    /// One of the kubelet configurations.
    Rules(u8),
    /// The disk is full, or has space again.
    Disk(bool),
    /// The agent is killed in the middle of a journal write.
    KillWhileWriting,
    /// One round of the agent's periodic checks.
    Check,
    /// The agent restarts and pins containers instead of the kubelet; the second time, the kubelet's state is deleted.
    TakeOver,
    /// The machine boots with one of the sizes of memory. The agent does not run yet.
    Reboot(u8),
}

/// Deterministic pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u8) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u8::try_from((mixed ^ (mixed >> 31)) % u64::from(end)).expect("below 256")
    }
}

fn random_step(random: &mut Random) -> Step {
    let (pod, container) = (random.below(PODS), random.below(2));
    match random.below(100) {
        0..12 => Step::Run(pod),
        12..27 => Step::Create(pod, container),
        27..38 => Step::Created(pod, container),
        38..50 => Step::Start(pod, container),
        50..56 => Step::Exit(pod, container),
        56..59 => Step::RemoveContainer(pod, container),
        59..62 => Step::PauseDies(pod),
        62..65 => Step::Complete(pod),
        65..68 => Step::Delete(pod),
        68..70 => Step::RemoveSandbox(pod),
        70 => Step::Resize(pod, container),
        71 => match random.below(3) {
            0 => Step::Shrink(pod, container),
            1 => Step::RunUnseen(pod),
            _ => Step::Vanish(pod),
        },
        72..77 => Step::Watch,
        77 => Step::WatchAgain,
        78..81 => Step::WatchAll,
        81..84 => Step::Kill,
        84..90 => Step::StartAgent,
        90 => Step::RestartRuntime,
        91..93 => Step::Offline(random.below(4)),
        93..95 => Step::Rules(random.below(rules::CONFIGURATIONS)),
        95 => Step::Disk(true),
        96 => Step::Disk(false),
        97 => Step::KillWhileWriting,
        98 => match random.below(3) {
            0 => Step::Reboot(random.below(3)),
            _ => Step::TakeOver,
        },
        _ => Step::Check,
    }
}

fn random_history(seed: u64) -> (Setup, Vec<Step>) {
    let mut random = Random(seed);
    let setup = Setup {
        runtime: match random.below(2) {
            0 => Runtime::Containerd,
            _ => Runtime::CriO,
        },
        api_server: random.below(3) > 0,
        takeover: random.below(4) == 0,
        koordinator: random.below(3) == 0,
    };
    let mut steps: Vec<Step> = (0..STEPS).map(|_| random_step(&mut random)).collect();
    if setup.takeover {
        steps[usize::from(10 + random.below(10))] = Step::TakeOver;
    }
    (setup, steps)
}

/// Plays a history. Returns the rule that a step broke, with the index of the step.
fn play(setup: Setup, steps: &[Step]) -> Result<(), (usize, String)> {
    // At the end everything works again, and nothing may be left behind.
    let settle = [
        Step::Disk(false),
        Step::StartAgent,
        Step::WatchAll,
        Step::Check,
    ];
    let mut at = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut node = PlayedNode::new(setup);
        for step in steps.iter().chain(&settle) {
            node.prepare(*step);
            let before = model::Before::of(&node, *step);
            let rejected = node.step(*step);
            if let Err(broken) = model::check(&node, *step, &before, rejected) {
                return Err((at, broken));
            }
            at += 1;
        }
        Ok(())
    }));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err((at, format!("panic: {}", text.unwrap_or_default())))
    })
}

/// Removes steps as long as the history still fails.
fn shorten(setup: Setup, mut steps: Vec<Step>) -> (Vec<Step>, String) {
    let mut broken = String::new();
    if let Err((at, rule)) = play(setup, &steps) {
        steps.truncate(at + 1);
        broken = rule;
    }
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut start = 0;
        while start < steps.len() {
            let end = (start + size).min(steps.len());
            let fewer = [&steps[..start], &steps[end..]].concat();
            match play(setup, &fewer) {
                Err((_, rule)) => (steps, broken) = (fewer, rule),
                Ok(()) => start += size,
            }
        }
        size /= 2;
    }
    (steps, broken)
}

#[test]
fn no_history_gives_a_cpu_twice() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("PINFOLD_SEED").unwrap_or(0);
    let count = number("PINFOLD_CASES").map_or(HISTORIES, |cases| cases.saturating_mul(20));
    let mut failures = Vec::new();
    for seed in first..first.saturating_add(count) {
        let (setup, steps) = random_history(seed);
        if play(setup, &steps).is_err() {
            let (steps, broken) = shorten(setup, steps);
            failures.push(format!("seed {seed}: {broken}\n{setup:?}\n{steps:?}"));
        }
        // A few failures suffice to see what is wrong.
        if failures.len() == 3 {
            break;
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}
