//! Another process changes control groups; and the rules change while pods run.

use std::process::Command;

use super::kernel;
use super::kubelet::Room;
use super::options::Options;
use super::oracle::Oracle;
use super::pods::PodPlan;
use super::rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::cri::{Cri, Resources};
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal};

/// Plays it.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let mut scene = Scene::open(stage, &rules::kubelet("single-numa-node", "container"))?;
    let own = PodPlan::guaranteed("own", 1000, 16);
    let sharing = PodPlan::guaranteed("sharing", 200, 16);
    let ready = scene
        .come(&own, Known::Beforehand)
        .and_then(|_| scene.come(&sharing, Known::Beforehand));
    ready?;
    for name in ["own", "sharing"] {
        let outcome = overwritten(&scene, name);
        report.check(
            format_args!(
                "agent: CPUs of {name} that another process writes are noticed and repaired"
            ),
            outcome,
        );
    }
    let outcome = updated(&scene);
    report.check(
        "agent: what others ask the runtime for does not unpin",
        outcome,
    );
    let outcome = impossible(&scene);
    report.check(
        "agent: rules under which a running pod does not fit are rejected",
        outcome,
    );
    let outcome = other_rules(&mut scene);
    report.check(
        "agent: other rules are planned, then applied while all pods run",
        outcome,
    );
    let outcome = reloaded(&mut scene);
    report.check("agent: a changed file is read again on SIGHUP", outcome);
    Ok(scene.clear().inspect_err(|_| scene.abandon())?)
}

fn count(scene: &Scene<'_>) -> Result<f64, String> {
    let metrics = scene.agent.metrics()?;
    let drifts = metrics.iter();
    let drifts = drifts.filter(|(name, _)| name.starts_with("pinfold_cgroup_drift_total"));
    Ok(drifts.map(|(_, count)| count).sum())
}

/// Writes another list of CPUs into a container's group.
pub(crate) fn overwritten(scene: &Scene<'_>, name: &str) -> Result<(), String> {
    let before = count(scene)?;
    let group = group(scene, name)?;
    let other = match name {
        "own" => "0".to_owned(),
        _ => scene.oracle.ledger().rules().machine().online().to_string(),
    };
    let file = scene.stage.groups.cpuset(&group).join("cpuset.cpus");
    kernel::write(&file, &other)?;
    eventually("it is noticed", || {
        count(scene).is_ok_and(|now| now > before)
    })?;
    scene.check()
}

fn group(scene: &Scene<'_>, name: &str) -> Result<String, String> {
    let pod = scene.running.iter().find(|pod| pod.plan.name == name);
    let container = pod.and_then(|pod| pod.containers.first());
    container
        .map(|container| container.group.clone())
        .ok_or_else(|| format!("{name} does not run"))
}

/// The kubelet changes a container's resources: rejected if it has CPUs of its own, and the CPUs of all stay.
fn updated(scene: &Scene<'_>) -> Result<(), String> {
    for container in scene.running.iter().flat_map(|pod| &pod.containers) {
        let online = scene.oracle.ledger().rules().machine().online();
        let resources = Resources {
            cpuset_cpus: online.to_string(),
            cpu_shares: 512,
            cpu_quota: 10_000,
            cpu_period: 100_000,
            ..Resources::default()
        };
        let (_, own, _) = scene.oracle.expected(&container.resident, &container.name);
        resized(&scene.stage.cri, &container.id, resources, own)?;
        let wrong = scene.wrong();
        equal("at once", wrong.join("; ").as_str(), "")?;
    }
    Ok(())
}

/// Changes a container's resources. The agent rejects that, and says so, if the container has CPUs of its `own`.
pub(super) fn resized(cri: &Cri, id: &str, resources: Resources, own: bool) -> Result<(), String> {
    match (own, cri.update_resources(id, resources)) {
        (true, Err(why)) if why.contains("cannot change while it runs") => Ok(()),
        (true, outcome) => Err(format!("expected a rejected change, found {outcome:?}")),
        (false, outcome) => outcome,
    }
}

/// Rules with these CPUs for the system.
fn reserving(policy: &str, cpus: &str) -> String {
    let reserved = format!("reservedSystemCPUs: '{cpus}'");
    rules::kubelet(policy, "container").replace("reservedSystemCPUs: '0'", &reserved)
}

fn settings(
    scene: &Scene<'_>,
    rules: &str,
    more: &[&str],
) -> Result<(Option<i32>, String), String> {
    let file = scene.folder.join("other.yaml");
    kernel::write(&file, rules)?;
    let output = Command::new(&scene.stage.pinfold)
        .arg("settings")
        .arg(&file)
        .arg("--socket")
        .arg(scene.agent.socket())
        .args(more)
        .output()
        .map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

fn impossible(scene: &Scene<'_>) -> Result<(), String> {
    let room = Room::find()?;
    let all = format!("0-{}", room.free);
    let (code, said) = settings(scene, &reserving("none", &all), &[])?;
    equal(&format!("exit code ({said})"), code, Some(1))?;
    scene.check()
}

/// The system gets the CPUs of the container that has its own: it has to move.
fn other_rules(scene: &mut Scene<'_>) -> Result<(), String> {
    let group = group(scene, "own")?;
    let before = scene.stage.groups.look(&group)?;
    let new = reserving("best-effort", &before.cpus.to_string());
    let (code, said) = settings(scene, &new, &["--dry-run", "-o", "json"])?;
    equal(&format!("exit code ({said})"), code, Some(0))?;
    equal(
        &format!("own is to move ({said})"),
        said.contains("\"moved\""),
        true,
    )?;
    scene.check()?;
    let (code, said) = settings(scene, &new, &[])?;
    equal(&format!("exit code ({said})"), code, Some(0))?;
    let mut oracle = Oracle::new(&new)?;
    for pod in &scene.running {
        oracle.admit(&pod.plan.object()?.pod)?;
    }
    scene.oracle = oracle;
    scene.check()?;
    let after = scene.stage.groups.look(&group)?;
    equal("it moved", before.cpus.is_disjoint(&after.cpus), true)?;
    equal("the process", after.process, before.process)
}

/// Back to the first rules, by the file.
fn reloaded(scene: &mut Scene<'_>) -> Result<(), String> {
    let rules = rules::kubelet("restricted", "pod");
    kernel::write(&scene.folder.join("rules.yaml"), &rules)?;
    scene.agent.signal("HUP")?;
    let agent = &scene.agent;
    eventually("the new rules are in force", || {
        agent
            .status()
            .is_ok_and(|status| status["topologyPolicy"] == "restricted")
    })?;
    let mut oracle = Oracle::new(&rules)?;
    for pod in &scene.running {
        oracle.admit(&pod.plan.object()?.pod)?;
    }
    scene.oracle = oracle;
    scene.check()
}
