//! The shapes of the pods that are bound to the real kubelet.

use serde_json::{Map, Value, json};

use crate::cluster::pods::{Amounts, Dice, IMAGE};

/// A resource of which the node has four.
pub(super) const WIDGET: &str = "example.com/widget";
/// A resource that the node lists and has none of.
pub(super) const GONE: &str = "example.com/gone";
/// A resource that the node does not list.
const UNLISTED: &str = "example.com/unlisted";
/// The runtime class with overhead.
pub(super) const HEAVY: &str = "heavy";

/// Which pods are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Everything.
    All,
    /// Pods without constraints whose containers ask for little.
    Small,
    /// Pods with one container that asks for little: their number is the limit.
    Tiny,
    /// Pods with exclusive CPUs.
    Aligned,
    /// Pods without constraints that ask for much.
    Sums,
}

/// A pod on the node, without requests.
fn plain(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": {} },
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            // Without it no container starts.
            "volumes": [{ "name": "missing", "configMap": { "name": "missing" } }],
            "containers": [container("main")],
        },
    })
}

fn container(name: &str) -> Value {
    json!({ "name": name, "image": IMAGE, "imagePullPolicy": "Never", "resources": {} })
}

fn list(amounts: Amounts<'_>) -> Map<String, Value> {
    let amounts = amounts.iter();
    amounts
        .map(|(resource, amount)| ((*resource).to_owned(), json!(amount)))
        .collect()
}

/// A pod that requests these amounts.
pub(super) fn requesting(name: &str, node: &str, amounts: Amounts<'_>) -> Value {
    let mut pod = plain(name, node);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": list(amounts) });
    pod
}

/// A pod that asks for one of an extended resource, and tolerates everything.
pub(super) fn asks_for(name: &str, node: &str, resource: &str) -> Value {
    let mut pod = plain(name, node);
    pod["spec"]["containers"][0]["resources"] = json!({ "limits": { resource: "1" } });
    pod["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    pod
}

/// The pod as a critical one.
pub(super) fn critical(mut pod: Value) -> Value {
    pod["spec"]["priorityClassName"] = "system-node-critical".into();
    pod
}

/// The pod with a port of the host.
pub(super) fn with_port(mut pod: Value, port: u16) -> Value {
    pod["spec"]["containers"][0]["ports"] = json!([{ "containerPort": port, "hostPort": port }]);
    pod
}

/// A random pod on the node.
pub(super) fn random(dice: &mut Dice, name: &str, node: &str, mix: Mix) -> Value {
    let mut pod = plain(name, node);
    if mix == Mix::Tiny {
        pod["spec"]["containers"] = json!([small(dice, "main")]);
        return pod;
    }
    let app = |dice: &mut Dice, name: &str| match mix {
        Mix::Small | Mix::Tiny => small(dice, name),
        Mix::Aligned => aligned(dice, name),
        Mix::Sums => large(dice, name),
        Mix::All => match dice.below(10) {
            0 | 1 => container(name),
            2..=4 => small(dice, name),
            5..=7 => aligned(dice, name),
            _ => large(dice, name),
        },
    };
    let mut apps = vec![app(dice, "main")];
    if dice.says(20) {
        apps.push(app(dice, "second"));
    }
    pod["spec"]["containers"] = apps.into();
    let mut inits = Vec::new();
    if dice.says(20) {
        inits.push(app(dice, "init"));
    }
    if dice.says(15) {
        let mut sidecar = app(dice, "sidecar");
        sidecar["restartPolicy"] = "Always".into();
        inits.push(sidecar);
    }
    if dice.says(10) {
        inits.push(app(dice, "last"));
    }
    if !inits.is_empty() {
        pod["spec"]["initContainers"] = inits.into();
    }
    if mix != Mix::Aligned {
        scalar(dice, &mut pod);
    }
    if dice.says(12) {
        pod_level(dice, &mut pod);
    }
    if dice.says(12) {
        pod["spec"]["runtimeClassName"] = HEAVY.into();
    }
    if mix == Mix::All {
        constraints(dice, &mut pod);
    }
    // Most pods tolerate the taint of the wave that has one.
    if dice.says(70) {
        let exists = json!({ "key": "dedicated", "operator": "Exists", "effect": "NoExecute" });
        let equal = json!({ "key": "dedicated", "value": "batch" });
        let one = if dice.says(50) { exists } else { equal };
        pod["spec"]["tolerations"] = json!([one]);
    }
    pod
}

/// A container that asks for little, Burstable or guaranteed a fraction of a CPU.
fn small(dice: &mut Dice, name: &str) -> Value {
    let cpu = format!("{}m", 10 * (1 + dice.below(20)));
    let memory = format!("{}Mi", 8 * (1 + dice.below(8)));
    let amounts = list(&[("cpu", &cpu), ("memory", &memory)]);
    let mut found = container(name);
    found["resources"] = match dice.below(3) {
        0 => json!({ "requests": amounts, "limits": amounts }),
        1 => json!({ "requests": amounts }),
        // The API server takes the requests from the limits.
        _ => json!({ "limits": amounts }),
    };
    found
}

/// A guaranteed container with whole CPUs, which fit one NUMA node or not.
fn aligned(dice: &mut Dice, name: &str) -> Value {
    let cpus = (1 + dice.below(5)).to_string();
    let amounts = list(&[("cpu", &cpus), ("memory", "64Mi")]);
    let mut found = container(name);
    found["resources"] = json!({ "requests": amounts, "limits": amounts });
    found
}

/// A container that asks for much of one resource.
fn large(dice: &mut Dice, name: &str) -> Value {
    let mut found = container(name);
    let amounts = match dice.below(3) {
        0 => json!({ "cpu": format!("{}m", 500 + 100 * dice.below(40)) }),
        1 => json!({ "memory": format!("{}Mi", 200 + dice.below(2400)), "cpu": "100m" }),
        _ => json!({ "ephemeral-storage": format!("{}Mi", 500 + dice.below(6000)) }),
    };
    found["resources"] = json!({ "requests": amounts });
    found
}

/// At most one resource that is not native or comes in pages: of several that are short the kubelet names any.
fn scalar(dice: &mut Dice, pod: &mut Value) {
    let (resource, amount) = match dice.below(20) {
        0..=2 => (WIDGET, (1 + dice.below(3)).to_string()),
        3 => (GONE, "1".to_owned()),
        4 | 5 => (UNLISTED, "2".to_owned()),
        6..=8 => ("hugepages-2Mi", format!("{}Mi", 2 * (1 + dice.below(40)))),
        _ => return,
    };
    let container = &mut pod["spec"]["containers"][0]["resources"];
    for key in ["requests", "limits"] {
        let mut own = container[key].as_object().cloned().unwrap_or_default();
        own.insert(resource.to_owned(), amount.clone().into());
        container[key] = own.into();
    }
    // The API server wants CPU or memory beside hugepages.
    if resource.starts_with("hugepages") && container["requests"]["cpu"].is_null() {
        container["requests"]["cpu"] = "10m".into();
    }
}

/// Pod-level resources above those of all containers.
fn pod_level(dice: &mut Dice, pod: &mut Value) {
    let cpu = (4 + dice.below(5)).to_string();
    let amounts = json!({ "cpu": cpu, "memory": "512Mi" });
    // More than the containers may ask for together.
    for kind in ["containers", "initContainers"] {
        let containers = pod["spec"][kind].as_array_mut();
        for container in containers.into_iter().flatten() {
            container["resources"] = json!({ "requests": { "cpu": "500m", "memory": "32Mi" } });
        }
    }
    pod["spec"]["resources"] = match dice.says(50) {
        true => json!({ "requests": amounts, "limits": amounts }),
        false => json!({ "requests": amounts }),
    };
}

/// Constraints on the node: most are met.
fn constraints(dice: &mut Dice, pod: &mut Value) {
    match dice.below(24) {
        0 => pod["spec"]["nodeSelector"] = json!({ "disk": "ssd" }),
        1 => pod["spec"]["nodeSelector"] = json!({ "disk": "hdd" }),
        2 => selects(pod, &[term("rank", "Gt", &["4"])]),
        3 => selects(pod, &[term("rank", "Lt", &["5"])]),
        4 => selects(
            pod,
            &[
                term("disk", "NotIn", &["ssd"]),
                term("rank", "In", &["5", "6"]),
            ],
        ),
        5 => selects(pod, &[term("gpu", "Exists", &[])]),
        6 => selects(pod, &[term("gpu", "DoesNotExist", &[])]),
        7 => {
            let name = json!({ "key": "metadata.name", "operator": "In", "values": ["other"] });
            selects(pod, &[json!({ "matchFields": [name] })]);
        }
        8 => pod["metadata"]["labels"] = json!({ "kubernetes.io/os": "windows" }),
        9 => pod["metadata"]["labels"] = json!({ "kubernetes.io/os": "linux" }),
        10 => pod["spec"]["os"] = json!({ "name": "windows" }),
        11 => pod["spec"]["os"] = json!({ "name": "linux" }),
        12..=17 => ports(dice, pod),
        _ => {}
    }
}

fn term(key: &str, operator: &str, values: &[&str]) -> Value {
    let mut requirement = json!({ "key": key, "operator": operator });
    if !values.is_empty() {
        requirement["values"] = json!(values);
    }
    json!({ "matchExpressions": [requirement] })
}

fn selects(pod: &mut Value, terms: &[Value]) {
    let required = json!({ "nodeSelectorTerms": terms });
    pod["spec"]["affinity"] =
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
}

/// A port of the host, of few: some are in use.
fn ports(dice: &mut Dice, pod: &mut Value) {
    let number = 8080 + dice.below(2);
    let mut port = json!({ "containerPort": 80, "hostPort": number });
    match dice.below(4) {
        0 => port["hostIP"] = "127.0.0.1".into(),
        1 => port["hostIP"] = "127.0.0.2".into(),
        2 => port["protocol"] = "UDP".into(),
        _ => {}
    }
    pod["spec"]["containers"][0]["ports"] = json!([port]);
}
