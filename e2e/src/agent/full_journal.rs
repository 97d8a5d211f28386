//! An agent with as many pods as a node has, and a journal as large as it gets: how much memory it needs.

use super::load::status_kib;
use super::pods::{ContainerPlan, PodPlan};
use super::process::Agent;
use super::rules;
use super::stage::Stage;

/// A little less than the limit in bytes at which the journal is compacted.
const ALMOST: f64 = 16.0 * 1024.0 * 1024.0 - 512.0 * 1024.0;
/// More pods than could be needed to fill the journal.
const MANY: u32 = 100_000;
/// Containers of the pods that are rejected: the journal has their specifications.
const CONTAINERS: u32 = 40;
/// How many pages of the journal are read.
const PAGES: u64 = 50;

/// What an agent needed.
#[derive(Clone, Debug)]
pub(crate) struct FullJournal {
    pub(crate) pods: u32,
    /// Bytes of the journal.
    pub(crate) length: f64,
    /// The most memory that was resident while the journal grew and was read, in KiB.
    pub(crate) peak: u64,
    /// The same of an agent that starts with it.
    pub(crate) peak_after_start: u64,
}

/// Declares pods, and others that are rejected until the journal is full.
pub(crate) fn measure(stage: &mut Stage, pods: u32) -> Result<FullJournal, String> {
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules::kubelet("single-numa-node", "container"));
    let agent = stage.agent(&setup, &folder)?;
    for number in 0..pods {
        let main = ContainerPlan::between("main", (20, 0), (0, 0));
        let plan = PodPlan::new(&format!("kept-{number}"), vec![main]);
        declare(&agent, &plan, 201)?;
    }
    let large: Vec<ContainerPlan> = (0..CONTAINERS)
        .map(|one| ContainerPlan::guaranteed(&format!("c{one}"), 1_000_000, 16))
        .collect();
    for number in 0..MANY {
        let plan = PodPlan::new(&format!("large-{number}"), large.clone());
        declare(&agent, &plan, 409)?;
        if number % 20 == 0 && journal_length(&agent)? > ALMOST {
            break;
        }
    }
    read_journal(&agent)?;
    let peak = status_kib(agent.id(), "VmHWM:")?;
    drop(agent);
    let agent = stage.agent(&setup, &folder)?;
    read_journal(&agent)?;
    Ok(FullJournal {
        pods,
        length: journal_length(&agent)?,
        peak,
        peak_after_start: status_kib(agent.id(), "VmHWM:")?,
    })
}

fn declare(agent: &Agent, plan: &PodPlan, expected: u16) -> Result<(), String> {
    let (code, said) = agent.ask("POST", "/v1/pods", &plan.manifest())?;
    match code == expected {
        true => Ok(()),
        false => Err(format!(
            "{}: expected {expected}, found {code}: {said}",
            plan.name
        )),
    }
}

fn journal_length(agent: &Agent) -> Result<f64, String> {
    let metrics = agent.metrics()?;
    let length = metrics.get("pinfold_journal_bytes").copied();
    length.ok_or_else(|| "no pinfold_journal_bytes".to_owned())
}

/// Reads pages all over the journal.
fn read_journal(agent: &Agent) -> Result<(), String> {
    let last = agent.status()?["generation"].as_u64().unwrap_or(0);
    for page in 0..PAGES {
        let after = last * page / PAGES;
        let (code, said) = agent.ask("GET", &format!("/v1/journal?after={after}"), "")?;
        if code != 200 {
            return Err(format!("the journal after {after}: {code}: {said}"));
        }
    }
    Ok(())
}
