//! The pods of the suite: bound to the node, with exclusive CPUs, memory, hugepages and devices.

use serde_json::{Map, Value, json};

use super::machine::{GPU, NODE};
use crate::cluster::pods::{Amounts, Dice, IMAGE, PODS};
use crate::cluster::stage::{Stage, eventually};

/// A pod that is bound to the node.
pub(super) fn pod(name: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "hostNetwork": true,
            "containers": containers,
        },
    })
}

/// A container with these amounts as requests and limits.
pub(super) fn container(name: &str, amounts: Amounts<'_>) -> Value {
    let amounts = amounts.iter();
    let list: Map<String, Value> = amounts
        .map(|(resource, amount)| ((*resource).to_owned(), json!(amount)))
        .collect();
    json!({
        "name": name, "image": IMAGE, "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "sleep", "100000"],
        "resources": { "requests": list, "limits": list },
    })
}

/// A container that only requests CPU time and memory.
pub(super) fn burstable(name: &str, cpu: &str) -> Value {
    let mut container = container(name, &[]);
    container["resources"] = json!({ "requests": { "cpu": cpu, "memory": "16Mi" } });
    container
}

/// A random pod. One that does not start waits for a volume that does not exist, which the kubelet notices after it has
/// admitted the pod; only those have init containers, whose memory the kubelet gives back at a time of its own.
pub(super) fn random(dice: &mut Dice, name: &str, starts: bool) -> Value {
    let mut containers = vec![random_container(dice, "main")];
    if dice.says(25) {
        containers.push(random_container(dice, "second"));
    }
    let mut pod = pod(name, &containers);
    let mut inits = Vec::new();
    if !starts && dice.says(20) {
        let mut init = random_container(dice, "init");
        init["command"] = json!(["/bin/busybox", "true"]);
        inits.push(init);
    }
    if !starts && dice.says(12) {
        let mut sidecar = random_container(dice, "sidecar");
        sidecar["restartPolicy"] = "Always".into();
        inits.push(sidecar);
    }
    if !inits.is_empty() {
        pod["spec"]["initContainers"] = inits.into();
    }
    if !starts {
        pod["spec"]["volumes"] = json!([{ "name": "missing", "configMap": { "name": "missing" } }]);
        for kind in ["initContainers", "containers"] {
            let containers = pod["spec"][kind].as_array_mut();
            for container in containers.into_iter().flatten() {
                // The kubelet waits only for volumes that are mounted.
                container["volumeMounts"] = json!([{ "name": "missing", "mountPath": "/missing" }]);
            }
        }
    }
    pod
}

fn random_container(dice: &mut Dice, name: &str) -> Value {
    let memory = dice.one_of(&["32Mi", "64Mi", "64Mi", "300Mi", "900Mi", "1500Mi", "1900Mi"]);
    let gpus = (1 + dice.below(3)).to_string();
    let pages = format!("{}Mi", [2, 8, 48, 96, 160][dice.index(5)]);
    let mut amounts = vec![("memory", memory)];
    let (has_gpus, has_pages) = (dice.says(40), dice.says(30));
    if has_gpus {
        amounts.push((GPU, &gpus));
    }
    if has_pages {
        amounts.push(("hugepages-2Mi", &pages));
    }
    match dice.below(10) {
        0..=6 => {
            let cpus = match dice.below(10) {
                0..=7 => 1 + dice.below(4),
                _ => 5 + dice.below(6),
            };
            let cpus = cpus.to_string();
            amounts.push(("cpu", &cpus));
            container(name, &amounts)
        }
        7 => {
            let cpu = format!("{}m", 100 * (1 + dice.below(25)));
            amounts.push(("cpu", &cpu));
            container(name, &amounts)
        }
        8 => {
            let mut found = burstable(name, &format!("{}m", 100 * (1 + dice.below(12))));
            if has_gpus {
                found["resources"]["requests"][GPU] = gpus.as_str().into();
                found["resources"]["limits"] = json!({ GPU: gpus });
            }
            found
        }
        _ => container(name, &[]),
    }
}

/// The kubelet's answer to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Admitted,
    /// Reason and message of the status.
    Failed(String, String),
}

/// Creates a pod; the pod as the API server made it, and the kubelet's answer.
pub(super) fn bind(stage: &Stage, pod: &Value) -> Result<(Value, Answer), String> {
    let created = stage.admin.expect("POST", PODS, Some(pod))?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let answer = eventually(&format!("the kubelet answers about {name}"), || {
        let found = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
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
pub(super) fn end(stage: &Stage, name: &str) -> Result<(), String> {
    let path = format!("{PODS}/{name}");
    stage.admin.expect("DELETE", &path, None)?;
    eventually(&format!("{name} ends"), || {
        match stage.admin.ask("GET", &path, None)? {
            (404, _) => Ok(()),
            (_, pod) => Err(pod["status"].to_string()),
        }
    })
}

/// The same for every pod.
pub(super) fn end_all(stage: &Stage) -> Result<(), String> {
    stage.admin.expect("DELETE", PODS, None)?;
    let ended = || match stage.pods()?.len() {
        0 => Ok(()),
        left => Err(format!("{left} pods are left")),
    };
    // Many containers take their time to end.
    eventually("all pods end", ended).or_else(|_| eventually("all pods end", ended))
}
