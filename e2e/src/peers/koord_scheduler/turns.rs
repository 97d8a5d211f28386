//! koord-scheduler and Pinfold's scheduler on the same nodes, pod by pod in turns.

use conformance::peers::Outcome;
use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::nodes::Nodes;
use super::process::{KoordScheduler, NAME};
use super::random;
use crate::cluster::OurScheduler;
use crate::cluster::dialects::pinned;
use crate::cluster::pods::{Dice, PODS};
use crate::cluster::stage::eventually;
use crate::peers::stage::Stage;
use crate::programs;
use crate::report::{equal, say};

/// The name of our scheduler.
const OURS: &str = "pinfold";
const PODS_IN_TURNS: usize = 200;
/// Pods leave so that at most half of the CPUs are taken: every pod fits.
const MOST_TAKEN: usize = 30;

/// A pod that is there: its name, uid, node, CPUs.
type Resident = (String, String, String, CpuSet);

/// Plays it.
pub(crate) fn run(
    stage: &Stage,
    koordinator: &KoordScheduler,
    dice: &mut Dice,
) -> Result<(), String> {
    let mut machines = random::machines(dice, 100);
    machines.truncate(4);
    // Our scheduler leaves the choice of CPUs to a kubelet that makes it.
    machines.retain(|machine| !machine.is_kubelet_s());
    let nodes = Nodes::join(stage, koordinator, machines)?;
    let outcome = play(stage, koordinator, dice);
    nodes.leave(stage)?;
    outcome
}

fn play(stage: &Stage, koordinator: &KoordScheduler, dice: &mut Dice) -> Result<(), String> {
    let program = programs::debug_program(programs::SCHEDULER)?;
    let ours = OurScheduler::start(stage, &program, OURS)?;
    let mut here: Vec<Resident> = Vec::new();
    let mut bound = [0, 0];
    for number in 0..PODS_IN_TURNS {
        let turn = number % 2;
        while here.iter().map(|pod| pod.3.len()).sum::<usize>() > MOST_TAKEN {
            let (name, uid, node, _) = here.remove(dice.index(here.len()));
            stage.delete(&name)?;
            koordinator.has_noticed(&node, &[uid])?;
        }
        let policy = dice.one_of(&["FullPCPUs", "SpreadByPCPUs"]);
        let how = json!({ "preferredCPUBindPolicy": policy });
        let count = 1 + u32::try_from(dice.below(4)).unwrap_or(0);
        let name = format!("turn-{number}");
        let pod = pinned(&name, [NAME, OURS][turn], count, &how);
        stage.create(&pod)?;
        let resident = placed(stage, &name)?;
        equal(&format!("CPUs of {name}"), resident.3.len(), count as usize)?;
        for other in here.iter().filter(|other| other.2 == resident.2) {
            if !other.3.is_disjoint(&resident.3) {
                return Err(format!("{other:?} and {resident:?} overlap"));
            }
        }
        knows(koordinator, &resident)?;
        bound[turn] += 1;
        here.push(resident);
    }
    say(format_args!(
        "        {NAME} bound {}, {OURS} {}",
        bound[0], bound[1]
    ));
    drop(ours);
    Ok(())
}

/// Waits until the pod is bound with CPUs: one that is not has starved, since there is room.
fn placed(stage: &Stage, name: &str) -> Result<Resident, String> {
    eventually(&format!("{name} is bound"), || {
        let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match Outcome::of(&pod) {
            Some(Outcome::Bound(decision)) => {
                let cpus = CpuSet::parse(decision["cpuset"].as_str().unwrap_or_default());
                let cpus = cpus.map_err(|error| error.to_string())?;
                let (uid, node) = (
                    text(&pod["metadata"]["uid"]),
                    text(&pod["spec"]["nodeName"]),
                );
                Ok((name.to_owned(), uid, node, cpus))
            }
            other => Err(format!("{other:?}")),
        }
    })
}

/// Waits until koord-scheduler counts the pod, whichever scheduler placed it.
fn knows(koordinator: &KoordScheduler, (name, uid, node, _): &Resident) -> Result<(), String> {
    eventually(&format!("koord-scheduler counts {name}"), || {
        let known = koordinator.node(node)?;
        let pods = known["allocatedPods"].as_array();
        match pods
            .into_iter()
            .flatten()
            .any(|pod| pod["uid"] == uid.as_str())
        {
            true => Ok(()),
            false => Err(known["allocatedPods"].to_string()),
        }
    })
}
