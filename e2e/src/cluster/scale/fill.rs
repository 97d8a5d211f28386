//! One large node is filled with small pods, while its kubelet admits them and its reports follow.

use std::path::Path;
use std::time::Duration;

use super::super::engine::Engine;
use super::super::machines;
use super::super::pods::{PODS, cpus, pod};
use super::super::stage::{Stage, eventually};
use super::{by_hands, run};
use crate::report::equal;

/// 256 CPUs on eight NUMA nodes, one of them reserved.
const MACHINE: &str = "8 sockets, 32 cores, mem=64Gi";
/// All pods of two CPUs that fit beside the reserved CPU.
const COUNT: usize = 127;

/// What it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) pods: usize,
    /// From the first binding to the last.
    pub(crate) time: Duration,
}

pub(super) fn measure(stage: &Stage, program: &Path) -> Result<Filled, String> {
    let node = machines::node("filled", MACHINE, "single-numa-node", "container")?;
    stage
        .kubelets
        .join(&stage.admin, vec![node.with_most_pods(250)])?;
    by_hands(stage, COUNT, |admin, number| {
        let mut pod = pod(&format!("filled-{number}"), "fill", &[cpus(2)]);
        pod["spec"]["hostNetwork"] = false.into();
        admin.expect("POST", PODS, Some(&pod)).map(drop)
    })?;
    let engine = Engine::start(&stage.plane, program, "fill")?;
    let run = run(stage, COUNT, "fill", Some(&engine))?;
    eventually("all pods run", || {
        equal("pods", stage.kubelets.settled().0, COUNT)
    })?;
    super::super::faults::none_rejected(stage)?;
    stage.clear()?;
    stage.kubelets.leave(&stage.admin, &["filled"])?;
    Ok(Filled {
        pods: COUNT,
        time: run.time,
    })
}
