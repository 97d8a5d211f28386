//! One guaranteed pod gets a CPU of its own, and gives it back.

use super::oracle::Oracle;
use super::pods::PodPlan;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::report::{Report, equal};

/// Runs it.
pub(crate) fn run(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let rules = rules("single-numa-node", "container");
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules);
    let agent = stage.agent(&setup, &folder)?;
    let mut scene = Scene {
        oracle: Oracle::new(&rules)?,
        stage,
        agent,
        running: Vec::new(),
    };
    for (known, how) in [
        (Known::Beforehand, "known beforehand"),
        (Known::FromTheRuntime, "known from the runtime"),
    ] {
        let plan = PodPlan::guaranteed("first", 1000, 32);
        let outcome = scene
            .come(&plan, known)
            .and_then(|is_in| equal("it is let in", is_in, true))
            .and_then(|()| scene.clear());
        report.check(
            format_args!("agent: a guaranteed pod that is {how} gets a CPU of its own"),
            outcome,
        );
    }
    Ok(())
}

/// A KubeletConfiguration that reserves one core for the system.
pub(crate) fn rules(policy: &str, scope: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n\
         topologyManagerPolicy: {policy}\ntopologyManagerScope: {scope}\n\
         reservedSystemCPUs: '0'\nkubeReserved: {{memory: 64Mi}}\n\
         evictionHard: {{memory.available: 64Mi}}\n\
         reservedMemory: [{{numaNode: 0, limits: {{memory: 128Mi}}}}]\n"
    )
}
