//! The random pods of the story: every filter that excludes nodes has pods that it is about.

use serde_json::{Value, json};

use crate::cluster::pods::{Dice, IMAGE};

/// A resource that every third node has two of.
pub(super) const WIDGET: &str = "example.com/widget";

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
/// A label that only some nodes have.
const RANK: &str = "rank";

const APPS: [&str; 4] = ["web", "db", "cache", "batch"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A pod that asks for nothing.
pub(super) fn plain(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": {} },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": IMAGE, "resources": {} }],
        },
    })
}

/// Pods for nodes without other pods that every filter about pods and ports excludes from one node: chance may miss one.
pub(super) fn certain(round: u64) -> Vec<Value> {
    let on = |name: &str, only: &str, node: &str, more: Value| {
        let mut pod = plain(&format!("{name}-{round}"));
        pod["metadata"]["labels"] = json!({ "only": only });
        pod["spec"]["nodeSelector"] = json!({ HOST: node });
        for (key, value) in more.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    let selected = |only: &str| json!({ "matchLabels": { "only": only } });
    let spread = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore", "labelSelector": selected("spread"),
    }] });
    let near = |kind: &str, only: &str| {
        let term = json!({ "topologyKey": HOST, "labelSelector": selected(only) });
        json!({ "affinity": { kind: { REQUIRED: [term] } } })
    };
    let container = json!({
        "name": "main", "image": IMAGE, "ports": [{ "containerPort": 80, "hostPort": 9999 }],
    });
    let port = json!({ "containers": [container] });
    let (one, unlabelled) = ("filter-2", "filter-7");
    vec![
        on("spread", "spread", one, spread.clone()),
        on("spread-again", "spread", one, spread.clone()),
        on("spread-label", "spread", unlabelled, spread),
        on("alone", "alone", one, near("podAntiAffinity", "alone")),
        on(
            "alone-again",
            "alone",
            one,
            near("podAntiAffinity", "alone"),
        ),
        on("not-alone", "alone", one, json!({})),
        on("near-nothing", "near", one, near("podAffinity", "nothing")),
        on("port", "port", one, port.clone()),
        on("port-again", "port", one, port),
    ]
}

/// A random pod.
pub(super) fn random(dice: &mut Dice, name: &str) -> Value {
    let mut pod = plain(name);
    if dice.says(15) {
        let namespace = one_of(dice, &["team-red", "team-blue"]);
        pod["metadata"]["namespace"] = namespace.into();
    }
    let app = one_of(dice, &APPS);
    let tier = one_of(dice, &["front", "back"]);
    pod["metadata"]["labels"] = json!({ "app": app, "tier": tier });
    if dice.says(30) {
        pod["metadata"]["labels"]["size"] = one_of(dice, &["large", "small"]).into();
    }
    resources(dice, &mut pod);
    tolerations(dice, &mut pod);
    nodes(dice, &mut pod);
    let mut affinity = pod["spec"]["affinity"].as_object().cloned();
    for (key, percent) in [("podAffinity", 14), ("podAntiAffinity", 22)] {
        if dice.says(percent) {
            let mut terms = vec![term(dice)];
            if dice.says(20) {
                terms.push(term(dice));
            }
            let own = affinity.get_or_insert_default();
            own.insert(key.to_owned(), json!({ REQUIRED: terms }));
        }
    }
    if let Some(affinity) = affinity {
        pod["spec"]["affinity"] = affinity.into();
    }
    if dice.says(30) {
        let mut constraints = vec![spread(dice)];
        let another = spread(dice);
        let twice = constraints[0]["topologyKey"] == another["topologyKey"];
        if dice.says(30) && !twice {
            constraints.push(another);
        }
        pod["spec"]["topologySpreadConstraints"] = constraints.into();
    }
    pod
}

fn one_of<'t>(dice: &mut Dice, words: &[&'t str]) -> &'t str {
    let count = u64::try_from(words.len()).unwrap_or(1);
    let chosen = usize::try_from(dice.below(count)).unwrap_or(0);
    words.get(chosen).copied().unwrap_or_default()
}

fn resources(dice: &mut Dice, pod: &mut Value) {
    let container = &mut pod["spec"]["containers"][0];
    container["resources"] = match dice.below(10) {
        0..=3 => json!({}),
        4..=6 => json!({ "requests": { "cpu": format!("{}m", 100 * (1 + dice.below(15))) } }),
        7 => json!({ "requests": { "memory": format!("{}Mi", 256 * (1 + dice.below(14))) } }),
        8 => json!({ "requests": { "cpu": "3", "memory": "3Gi" } }),
        _ => json!({ "limits": { WIDGET: (1 + dice.below(2)).to_string() } }),
    };
    if dice.says(12) {
        let port = 8080 + dice.below(2);
        container["ports"] = json!([{ "containerPort": 80, "hostPort": port }]);
    }
}

fn tolerations(dice: &mut Dice, pod: &mut Value) {
    let mut own = Vec::new();
    if dice.says(25) {
        own.push(json!({ "key": "dedicated", "operator": "Equal", "value": "batch" }));
    }
    if dice.says(20) {
        own.push(json!({ "key": "evict", "operator": "Exists", "effect": "NoExecute" }));
    }
    if dice.says(15) {
        own.push(json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists" }));
    }
    if dice.says(8) {
        own.push(json!({ "operator": "Exists" }));
    }
    pod["spec"]["tolerations"] = own.into();
}

/// A node selector or node affinity.
fn nodes(dice: &mut Dice, pod: &mut Value) {
    let by_labels =
        |terms: Value| json!({ "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": terms } } });
    let name = |name: &str| json!({ "key": "metadata.name", "operator": "In", "values": [name] });
    match dice.below(18) {
        0 => pod["spec"]["nodeSelector"] = json!({ "disk": "ssd" }),
        1 => pod["spec"]["nodeSelector"] = json!({ ZONE: one_of(dice, &["a", "b", "c", "d"]) }),
        2 => {
            let rank = json!({ "key": RANK, "operator": "Gt", "values": ["2"] });
            let terms = json!([{ "matchExpressions": [rank] }]);
            pod["spec"]["affinity"] = by_labels(terms);
        }
        3 => {
            let disk = json!({ "key": "disk", "operator": "NotIn", "values": ["ssd"] });
            let terms = json!([{ "matchExpressions": [disk] }]);
            pod["spec"]["affinity"] = by_labels(terms);
        }
        4 => {
            let first = one_of(dice, &["filter-1", "filter-4", "filter-8"]);
            let terms =
                json!([{ "matchFields": [name(first)] }, { "matchFields": [name("filter-9")] }]);
            pod["spec"]["affinity"] = by_labels(terms);
        }
        5 => {
            let terms = json!([{ "matchFields": [name("filter-2")] }]);
            pod["spec"]["affinity"] = by_labels(terms);
        }
        6 if dice.says(30) => {
            let terms = json!([{ "matchFields": [name("filter-1"), name("filter-2")] }]);
            pod["spec"]["affinity"] = by_labels(terms);
        }
        _ => {}
    }
}

fn selector(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0..=4 => json!({ "matchLabels": { "app": one_of(dice, &APPS) } }),
        5 => {
            let apps = json!({ "key": "app", "operator": "In", "values": ["web", "db"] });
            json!({ "matchExpressions": [apps] })
        }
        6 => {
            let size = json!({ "key": "size", "operator": "NotIn", "values": ["large"] });
            json!({ "matchExpressions": [size], "matchLabels": { "app": one_of(dice, &APPS) } })
        }
        _ => json!({}),
    }
}

/// A term of pod affinity or anti-affinity.
fn term(dice: &mut Dice) -> Value {
    let mut term = json!({
        "topologyKey": one_of(dice, &[ZONE, HOST, HOST, RANK]),
        "labelSelector": selector(dice),
    });
    match dice.below(12) {
        0 => term["namespaces"] = json!(["team-red"]),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({ "matchLabels": { "team": "blue" } }),
        3 => {
            let none = json!({ "key": "team", "operator": "DoesNotExist" });
            term["namespaceSelector"] = json!({ "matchExpressions": [none] });
        }
        4 => {
            let other = json!({ "key": "team", "operator": "NotIn", "values": ["red"] });
            term["namespaceSelector"] = json!({ "matchExpressions": [other] });
            term["namespaces"] = json!(["default"]);
        }
        5 => term["matchLabelKeys"] = json!(["tier"]),
        6 => term["mismatchLabelKeys"] = json!(["tier"]),
        _ => {}
    }
    term
}

/// A topology spread constraint.
fn spread(dice: &mut Dice) -> Value {
    let mut constraint = json!({
        "maxSkew": 1 + dice.below(2),
        "topologyKey": one_of(dice, &[ZONE, ZONE, HOST, RANK]),
        "whenUnsatisfiable": if dice.says(90) { "DoNotSchedule" } else { "ScheduleAnyway" },
        "labelSelector": selector(dice),
    });
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" && dice.says(25) {
        constraint["minDomains"] = (1 + dice.below(4)).into();
    }
    if dice.says(25) {
        constraint["nodeAffinityPolicy"] = one_of(dice, &["Honor", "Ignore"]).into();
    }
    if dice.says(35) {
        constraint["nodeTaintsPolicy"] = one_of(dice, &["Honor", "Ignore"]).into();
    }
    if dice.says(20) {
        constraint["matchLabelKeys"] = json!(["tier"]);
    }
    constraint
}
