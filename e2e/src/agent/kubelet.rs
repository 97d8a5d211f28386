//! The kubelet's rules: every policy and scope, pods of every class and shape, known beforehand or not.

use super::chance::Chance;
use super::options::Options;
use super::oracle;
use super::pods::{ContainerPlan, Kind, PodPlan};
use super::rules::kubelet as rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::report::{Report, Stop, equal};

const POLICIES: [&str; 4] = ["none", "best-effort", "restricted", "single-numa-node"];
const SCOPES: [&str; 2] = ["container", "pod"];
const WAYS: [(Known, &str); 2] = [
    (Known::Beforehand, "known beforehand"),
    (Known::FromTheRuntime, "known from the runtime"),
];

/// Plays the story under every policy and scope.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, options: &Options) -> Result<(), Stop> {
    let room = Room::find()?;
    let mut chance = Chance::new(options.seed);
    let plays = |policy: &&str| {
        options.policies.is_empty() || options.policies.iter().any(|one| one == policy)
    };
    for policy in POLICIES.into_iter().filter(plays) {
        for scope in SCOPES {
            let mut scene = Scene::open(stage, &rules(policy, scope))?;
            for (known, how) in WAYS {
                let from_runtime = known == Known::FromTheRuntime;
                if from_runtime && (scope == "pod" || options.brief) {
                    // Containers of unknown pods are decided one by one.
                    continue;
                }
                let outcome = match options.brief {
                    true => brief(&mut scene, known, &room),
                    false => story(&mut scene, known, &room)
                        .and_then(|()| surprises(&mut scene, known, &room, &mut chance)),
                };
                let outcome = outcome.and_then(|()| scene.clear());
                let outcome = outcome.and_then(|()| scene.undisturbed());
                if outcome.is_err() {
                    scene.abandon();
                }
                report.check(
                    format_args!(
                        "agent: {policy} per {scope}: pods that are {how} come, share, are rejected, and go"
                    ),
                    outcome,
                );
            }
        }
    }
    Ok(())
}

/// What there is to give away.
pub(crate) struct Room {
    /// CPUs beside the reserved one.
    pub(crate) free: i64,
    /// The most of them on one NUMA node.
    pub(crate) on_one: i64,
}

impl Room {
    pub(crate) fn find() -> Result<Self, String> {
        let (machine, _) = oracle::machine()?;
        let count = |number: usize| i64::try_from(number).unwrap_or(0);
        let of_node = |node: &pinfold_core::machine::NumaNode| {
            node.cores.iter().map(|core| core.threads.len()).sum()
        };
        let mut nodes: Vec<usize> = machine.nodes().iter().map(of_node).collect();
        if let Some(first) = nodes.first_mut() {
            *first = first.saturating_sub(1);
        }
        let on_one = nodes.iter().copied().max().unwrap_or(0);
        Ok(Self {
            free: count(nodes.iter().sum()),
            on_one: count(on_one),
        })
    }
}

/// A pod that shares, one with every kind of container, and others that may not fit beside it.
fn brief(scene: &mut Scene<'_>, known: Known, room: &Room) -> Result<(), String> {
    let app = ContainerPlan::guaranteed;
    comes(scene, known, &one("burst", (100, 200), (0, 0)))?;
    let steps = vec![
        app("first", 1000, 16).of_kind(Kind::Init),
        app("beside", 250, 16).of_kind(Kind::Sidecar),
        app("main", 2000, 16),
    ];
    comes(scene, known, &PodPlan::new("steps", steps))?;
    // There are never so many CPUs.
    let wide = PodPlan::guaranteed("wide", (room.free + 1) * 1000, 16);
    equal("wide is let in", scene.come(&wide, known)?, false)?;
    let team = vec![app("one", room.on_one * 1000, 16), app("two", 1000, 16)];
    scene.come(&PodPlan::new("team", team), known)?;
    scene.go("steps")?;
    scene.check()
}

/// A pod is let in.
fn comes(scene: &mut Scene<'_>, known: Known, plan: &PodPlan) -> Result<(), String> {
    let is_in = scene.come(plan, known)?;
    equal(&format!("{} is let in", plan.name), is_in, true)
}

/// Two init containers, a sidecar, and two more: with CPUs of their own and without.
fn steps() -> Vec<ContainerPlan> {
    let app = ContainerPlan::guaranteed;
    vec![
        app("first", 1000, 16).of_kind(Kind::Init),
        app("second", 500, 16).of_kind(Kind::Init),
        app("beside", 250, 16).of_kind(Kind::Sidecar),
        app("main", 1000, 16),
        app("other", 500, 16),
    ]
}

/// One pod after the other, each for a reason.
fn story(scene: &mut Scene<'_>, known: Known, room: &Room) -> Result<(), String> {
    let comes = |scene: &mut Scene<'_>, plan: PodPlan| comes(scene, known, &plan);
    let app = ContainerPlan::guaranteed;
    comes(scene, one("burst", (100, 200), (0, 0)))?;
    comes(scene, one("idle", (0, 0), (0, 0)))?;
    comes(scene, PodPlan::guaranteed("fraction", 500, 16))?;
    comes(scene, PodPlan::guaranteed("own", 1000, 16))?;
    // There are never so many CPUs.
    let wide = PodPlan::guaranteed("wide", (room.free + 1) * 1000, 16);
    equal("wide is let in", scene.come(&wide, known)?, false)?;
    scene.check()?;
    scene.go("own")?;
    scene.check()?;
    comes(scene, PodPlan::new("steps", steps()))?;
    scene.go("steps")?;
    scene.check()?;
    let mixed = vec![
        app("one", 1000, 16),
        ContainerPlan::between("two", (100, 0), (0, 0)),
    ];
    comes(scene, PodPlan::new("mixed", mixed))?;
    scene.go("mixed")?;
    if room.free > 3 {
        comes(scene, PodPlan::guaranteed("node", room.on_one * 1000, 32))?;
        let team = vec![app("one", 1000, 16), app("two", 2000, 16)];
        scene.come(&PodPlan::new("team", team), known)?;
        scene.check()?;
        scene.go("node")?;
        scene.check()?;
    }
    Ok(())
}

fn one(name: &str, cpu: (i64, i64), memory: (i64, i64)) -> PodPlan {
    PodPlan::new(name, vec![ContainerPlan::between("main", cpu, memory)])
}

/// Pods that chance makes.
fn surprises(
    scene: &mut Scene<'_>,
    known: Known,
    room: &Room,
    chance: &mut Chance,
) -> Result<(), String> {
    for number in 0..2 {
        let name = format!("chance-{number}");
        let mut containers = Vec::new();
        let largest = u64::try_from(room.on_one).unwrap_or(1).min(5);
        for kind in [Kind::Init, Kind::Sidecar, Kind::App, Kind::App] {
            if kind != Kind::App && chance.below(2) == 0 {
                continue;
            }
            let whole = i64::try_from(chance.below(largest + 1)).unwrap_or(0) * 1000;
            let milli = chance.one_of(&[whole, 1000, 300, 1500]).max(100);
            let container = ContainerPlan::guaranteed(&format!("c{}", containers.len()), milli, 8);
            containers.push(container.of_kind(kind));
        }
        scene.come(&PodPlan::new(&name, containers), known)?;
    }
    Ok(())
}
