//! What a real kubelet answers to pods that are bound to its node, and what `pinfold simulate --bound` answers on the
//! same state: the Node object of the API server, and the pods that the kubelet admitted so far, in order.
//!
//! No pod starts: its volume does not exist, which the kubelet finds out after it has admitted the pod.

mod critical;
mod shapes;
mod simulated;
mod static_pods;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use self::simulated::{Simulated, Simulator};
use super::node::{Mode, RealNode};
use super::pods::{Dice, PODS};
use super::stage::{Stage, eventually};
use crate::report::{Report, say};

const SEED: u64 = 20_261_118;
/// The node of the real kubelet.
const NODE: &str = "real-admission";
/// A pod of a wave ends after this many in a hundred.
const ENDS: u64 = 12;
/// The most differences that are printed.
const PRINTED: usize = 12;

/// The node in one wave, and which pods are bound to it.
struct Wave {
    /// `spec` of the Node object.
    spec: fn() -> Value,
    pods: u64,
    shapes: shapes::Mix,
}

const WAVES: [Wave; 7] = [
    Wave {
        spec: open,
        pods: 36,
        shapes: shapes::Mix::All,
    },
    Wave {
        spec: open,
        pods: 30,
        shapes: shapes::Mix::Small,
    },
    Wave {
        spec: tainted,
        pods: 24,
        shapes: shapes::Mix::All,
    },
    Wave {
        spec: open,
        pods: 30,
        shapes: shapes::Mix::Aligned,
    },
    Wave {
        spec: cordoned,
        pods: 24,
        shapes: shapes::Mix::All,
    },
    Wave {
        spec: open,
        pods: 24,
        shapes: shapes::Mix::Sums,
    },
    Wave {
        spec: open,
        pods: 26,
        shapes: shapes::Mix::Tiny,
    },
];

fn open() -> Value {
    json!({ "taints": null, "unschedulable": null })
}

/// The kubelet looks at one of these taints.
fn tainted() -> Value {
    let taints = json!([
        { "key": "dedicated", "value": "batch", "effect": "NoExecute" },
        { "key": "other", "effect": "NoSchedule" },
    ]);
    json!({ "taints": taints, "unschedulable": null })
}

/// The kubelet admits pods to a cordoned node.
fn cordoned() -> Value {
    json!({ "taints": null, "unschedulable": true })
}

/// A kubelet's answer to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Admitted,
    /// Reason and message of the status.
    Failed(String, String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Admitted => f.write_str("admitted"),
            Answer::Failed(reason, message) => write!(f, "{reason}: {message}"),
        }
    }
}

/// The pods that were compared.
#[derive(Default)]
struct Counts {
    admitted: usize,
    /// Rejected pods by reason.
    rejected: BTreeMap<String, usize>,
    not_simulated: usize,
    differences: Vec<String>,
}

impl Counts {
    fn all(&self) -> usize {
        self.admitted + self.rejected.values().sum::<usize>()
    }

    /// Compares both answers about a pod.
    fn compare(&mut self, pod: &Value, kubelet: &Answer, simulated: &Simulated) {
        match kubelet {
            Answer::Admitted => self.admitted += 1,
            Answer::Failed(reason, _) => *self.rejected.entry(reason.clone()).or_default() += 1,
        }
        match simulated {
            Simulated::LeftOut(_) => self.not_simulated += 1,
            Simulated::Answer(answer) if answer == kubelet => {}
            other => self.differences.push(format!(
                "{}\n    kubelet: {kubelet}\n    pinfold: {other}\n    spec: {}",
                pod["metadata"]["name"], pod["spec"]
            )),
        }
    }
}

/// Plays the story.
pub(crate) fn run(report: &mut Report, stage: &Stage) -> Result<(), String> {
    say(format_args!("seed {SEED}"));
    let manifests = static_pods::Manifests::serve()?;
    let mode = Mode::Admission(manifests.port());
    let simulator = Simulator::new(stage, mode)?;
    let mut node = RealNode::start(stage, NODE, mode)?;
    node.wait(stage)?;
    let scene = Scene {
        stage,
        simulator: &simulator,
    };
    scene.prepare()?;
    let mut counts = Counts::default();
    let outcome = scene.waves(&mut counts);
    let outcome = outcome.map_err(|problem| node.with_words(&problem));
    say(format_args!(
        "        {} pods compared: {} admitted, rejected: {:?}",
        counts.all(),
        counts.admitted,
        counts.rejected
    ));
    report.check(
        "cluster: real kubelet: phase, reason and message of every bound pod are those of pinfold simulate",
        outcome.and_then(|()| agreed(&counts)),
    );
    let outcome = critical::run(&scene);
    report.check(
        "cluster: real kubelet: a critical pod that preempts is answered with \"not simulated\"",
        outcome.map_err(|problem| node.with_words(&problem)),
    );
    let outcome = static_pods::run(&scene, &manifests);
    report.check(
        "cluster: real kubelet: static pods are admitted and rejected as pinfold simulate answers",
        outcome.map_err(|problem| node.with_words(&problem)),
    );
    let path = format!("/api/v1/nodes/{NODE}");
    stage.admin.expect("DELETE", &path, None).map(drop)
}

/// Every pod was compared, all agree, and the pods met enough different checks.
fn agreed(counts: &Counts) -> Result<(), String> {
    let different = counts.differences.len();
    if different > 0 {
        let printed: Vec<&str> = counts.differences.iter().map(String::as_str).collect();
        let printed = printed[..different.min(PRINTED)].join("\n  ");
        return Err(format!("{different} differ:\n  {printed}"));
    }
    if counts.not_simulated > 0 {
        return Err(format!("{} were not simulated", counts.not_simulated));
    }
    for reason in [
        "OutOfpods",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "OutOfhugepages-2Mi",
        "OutOfexample.com/widget",
        "TopologyAffinityError",
        "NodeAffinity",
        "NodePorts",
        "TaintToleration",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    ] {
        if !counts.rejected.contains_key(reason) {
            return Err(format!("no pod was rejected with {reason}"));
        }
    }
    Ok(())
}

/// Everything that a comparison needs.
struct Scene<'a> {
    stage: &'a Stage,
    simulator: &'a Simulator,
}

impl Scene<'_> {
    /// Creates the runtime class with overhead, and gives the node disks and devices that its kubelet does not have.
    fn prepare(&self) -> Result<(), String> {
        let class = json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": shapes::HEAVY },
            "handler": "runc", "overhead": { "podFixed": { "cpu": "250m", "memory": "64Mi" } },
        });
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        self.stage.admin.expect("POST", classes, Some(&class))?;
        let amounts = json!({
            "ephemeral-storage": "10Gi", shapes::WIDGET: "4", shapes::GONE: "0",
        });
        let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
        let path = format!("/api/v1/nodes/{NODE}/status");
        self.stage
            .admin
            .expect("PATCH", &path, Some(&status))
            .map(drop)
    }

    fn waves(&self, counts: &mut Counts) -> Result<(), String> {
        let mut dice = Dice::new(SEED);
        for (number, wave) in WAVES.iter().enumerate() {
            self.change_node(number, &(wave.spec)())?;
            let mut admitted: Vec<String> = Vec::new();
            for pod in 0..wave.pods {
                let name = format!("wave-{number}-{pod}");
                let pod = shapes::random(&mut dice, &name, NODE, wave.shapes);
                if self.compare(&pod, &admitted, counts)? {
                    admitted.push(name);
                }
                if dice.says(ENDS) && !admitted.is_empty() {
                    let count = u64::try_from(admitted.len()).unwrap_or(1);
                    let ended = usize::try_from(dice.below(count)).unwrap_or(0);
                    self.end(&admitted.remove(ended))?;
                }
            }
            say(format_args!(
                "        wave {number}: {} of {} pods are on the node",
                admitted.len(),
                wave.pods
            ));
            self.end_all()?;
        }
        Ok(())
    }

    /// Compares both answers about a pod on the present state; whether the kubelet admitted it.
    fn compare(
        &self,
        pod: &Value,
        admitted: &[String],
        counts: &mut Counts,
    ) -> Result<bool, String> {
        let before = self.state(admitted)?;
        let (created, kubelet) = self.bind(pod)?;
        let simulated = self.simulator.ask(&before, &created)?;
        counts.compare(&created, &kubelet, &simulated);
        Ok(kubelet == Answer::Admitted)
    }

    /// The Node object and the pods on it.
    fn state(&self, admitted: &[String]) -> Result<Vec<Value>, String> {
        let node = format!("/api/v1/nodes/{NODE}");
        let mut objects = vec![self.stage.admin.expect("GET", &node, None)?];
        let mut pods = self.stage.pods()?;
        for mut pod in admitted.iter().filter_map(|name| pods.remove(name)) {
            // The items of a list do not say what they are.
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            objects.push(pod);
        }
        Ok(objects)
    }

    /// Creates a pod that is bound to the node; the pod as the API server made it, and the kubelet's answer.
    fn bind(&self, pod: &Value) -> Result<(Value, Answer), String> {
        let created = self.stage.admin.expect("POST", PODS, Some(pod))?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let answer = eventually(&format!("the kubelet answers about {name}"), || {
            let path = format!("{PODS}/{name}");
            let found = self.stage.admin.expect("GET", &path, None)?;
            let status = &found["status"];
            let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
            match (status["phase"].as_str(), status["startTime"].is_string()) {
                (Some("Failed"), _) => Ok(Answer::Failed(text("reason"), text("message"))),
                (_, true) => Ok(Answer::Admitted),
                _ => Err(status.to_string()),
            }
        })?;
        Ok((created, answer))
    }

    /// Deletes a pod, and waits until the kubelet has given back everything.
    fn end(&self, name: &str) -> Result<(), String> {
        let path = format!("{PODS}/{name}");
        self.stage.admin.ask("DELETE", &path, None)?;
        eventually(&format!("{name} ends"), || {
            match self.stage.admin.ask("GET", &path, None)? {
                (404, _) => Ok(()),
                (_, pod) => Err(pod["status"].to_string()),
            }
        })
    }

    /// The same for every pod of the suite.
    fn end_all(&self) -> Result<(), String> {
        self.stage.admin.expect("DELETE", PODS, None)?;
        eventually("all pods end", || match self.stage.pods()?.len() {
            0 => Ok(()),
            left => Err(format!("{left} pods are left")),
        })
    }

    /// Changes the Node object, and waits until the kubelet sees the change: it ignores a request for a resource that
    /// the node does not list, and rejects one for a resource that the node has none of.
    fn change_node(&self, number: usize, spec: &Value) -> Result<(), String> {
        let path = format!("/api/v1/nodes/{NODE}");
        let labels = json!({ "labels": { "disk": "ssd", "rank": "5" } });
        let change = json!({ "metadata": labels, "spec": spec });
        self.stage.admin.expect("PATCH", &path, Some(&change))?;
        let resource = format!("example.com/wave-{number}");
        let amounts = json!({ resource.as_str(): "0" });
        let change = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
        let status = format!("{path}/status");
        self.stage.admin.expect("PATCH", &status, Some(&change))?;
        let mut probes = 0;
        eventually("the kubelet sees the changed node", || {
            probes += 1;
            let name = format!("probe-{number}-{probes}");
            let probe = shapes::asks_for(&name, NODE, &resource);
            let (_, answer) = self.bind(&probe)?;
            self.end(&name)?;
            match answer {
                Answer::Failed(reason, _) if reason == format!("OutOf{resource}") => Ok(()),
                other => Err(other.to_string()),
            }
        })
    }
}
