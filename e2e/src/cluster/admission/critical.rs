//! Critical pods, for which the kubelet preempts others.

use super::simulated::Simulated;
use super::{Answer, NODE, Scene, shapes};
use crate::report::equal;

/// A critical pod that fits is admitted, one that violates a constraint is rejected, and one that is short of CPUs ends
/// another pod: only the last is not simulated.
pub(super) fn run(scene: &Scene<'_>) -> Result<(), String> {
    scene.change_node(90, &super::open())?;
    let victim = shapes::requesting("victim", NODE, &[("cpu", "4")]);
    let (_, answer) = scene.bind(&victim)?;
    equal("the victim", answer, Answer::Admitted)?;
    let victims = ["victim".to_owned()];
    let small = shapes::critical(shapes::requesting("small", NODE, &[("cpu", "1")]));
    let mut elsewhere = shapes::critical(shapes::requesting("elsewhere", NODE, &[("cpu", "6")]));
    elsewhere["spec"]["nodeSelector"] = serde_json::json!({ "disk": "hdd" });
    for pod in [small, elsewhere] {
        let state = scene.state(&victims)?;
        let (created, kubelet) = scene.bind(&pod)?;
        let simulated = scene.simulator.ask(&state, &created)?;
        equal("both answers", simulated, Simulated::Answer(kubelet))?;
        scene.end(pod["metadata"]["name"].as_str().unwrap_or_default())?;
    }
    let large = shapes::critical(shapes::requesting("large", NODE, &[("cpu", "5")]));
    let state = scene.state(&victims)?;
    let (created, kubelet) = scene.bind(&large)?;
    equal("the large pod", kubelet, Answer::Admitted)?;
    match scene.simulator.ask(&state, &created)? {
        Simulated::LeftOut(_) => {}
        other => return Err(format!("the simulation answers {other}")),
    }
    scene.end_all()
}
