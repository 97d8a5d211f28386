//! A machine of several NUMA nodes: CPUs, memory and huge pages of a container come from the same one.

use super::kubelet::Room;
use super::options::Options;
use super::oracle;
use super::pods::{ContainerPlan, PodPlan};
use super::rules::kubelet as rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::report::{Report, Stop, equal};

/// Runs the theme on a machine with several NUMA nodes.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    if oracle::machine()?.0.nodes().len() < 2 {
        return Err(Stop::Skip("this machine has one NUMA node".to_owned()));
    }
    let room = Room::find()?;
    let mut scene = Scene::open(stage, &rules("single-numa-node", "pod"))?;
    let outcome = play(&mut scene, &room);
    if outcome.is_err() {
        scene.abandon();
    }
    report.check(
        "agent: CPUs, memory and huge pages of a pod come from one NUMA node, or it is rejected",
        outcome,
    );
    Ok(())
}

fn play(scene: &mut Scene<'_>, room: &Room) -> Result<(), String> {
    let mut pages = ContainerPlan::guaranteed("main", 1000, 16);
    pages
        .others
        .insert("hugepages-2Mi".to_owned(), "8Mi".to_owned());
    let two = vec![
        ContainerPlan::guaranteed("one", 2000, 16),
        ContainerPlan::guaranteed("two", 1000, 16),
    ];
    for (plan, is_in) in [
        (PodPlan::new("pages", vec![pages]), true),
        (PodPlan::new("two", two), true),
        (PodPlan::guaranteed("whole", room.on_one * 1000, 16), true),
        (
            PodPlan::guaranteed("wider", (room.on_one + 1) * 1000, 16),
            false,
        ),
    ] {
        let found = scene.come(&plan, Known::Beforehand)?;
        equal(&format!("{} is let in", plan.name), found, is_in)?;
    }
    for running in &scene.running {
        for container in &running.containers {
            let seen = scene.stage.groups.look(&container.group)?;
            equal(
                &format!("nodes of {}", running.plan.name),
                seen.mems.len(),
                1,
            )?;
        }
    }
    scene.clear()
}
