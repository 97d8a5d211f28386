//! What the chart renders for sets of values, each beside what its parts are for.

use std::fs;

use pinfold_core::fidelity::Fidelity;
use pinfold_kube::kubelet_config::KubeletSettings;
use serde_json::{Value, json};

use super::program::Helm;
use super::{file, find, matches, parsed};
use crate::programs::workspace;
use crate::report::equal;

/// One DaemonSet for each group, on its nodes only, with its settings merged over those of all.
pub(super) fn node_groups(helm: &Helm) -> Result<(), String> {
    let objects = super::objects(&helm.template(&file("node-groups"))?)?;
    let sets = objects
        .iter()
        .filter(|object| object["kind"] == "DaemonSet");
    equal("DaemonSets", sets.count(), 2)?;
    for (group, mode, taint) in [
        ("general", "mirror", json!(null)),
        (
            "low-latency",
            "manage",
            json!("pinfold.dev/agent-not-ready:NoSchedule"),
        ),
    ] {
        let name = format!("pinfold-agent-{group}");
        let set = find(&objects, "DaemonSet", &name).ok_or_else(|| format!("no {name}"))?;
        let template = &set["spec"]["template"];
        let selected = &template["spec"]["nodeSelector"];
        equal(
            "nodes",
            selected,
            &json!({ "kubernetes.io/os": "linux", "pool": group }),
        )?;
        let selector = &set["spec"]["selector"]["matchLabels"];
        equal("selector", matches(selector, template), true)?;
        equal("label", &selector["pinfold.dev/node-group"], &json!(group))?;
        let privileges = &template["spec"]["containers"][0]["securityContext"]["capabilities"];
        equal(
            "capabilities",
            privileges["add"].is_null(),
            mode == "mirror",
        )?;
        let map = find(&objects, "ConfigMap", &name).ok_or_else(|| format!("no {name}"))?;
        let config = parsed(map["data"]["agent.yaml"].as_str().unwrap_or_default())?;
        equal("mode", &config["mode"], &json!(mode))?;
        equal("taint", &config["kubernetes"]["startupTaint"], &taint)?;
        equal(
            "condition",
            &config["kubernetes"]["nodeCondition"],
            &json!(true),
        )?;
        equal(
            "access",
            &config["kubernetes"]["kubeconfig"],
            &json!("inCluster"),
        )?;
    }
    for (role, resource) in [
        ("node-condition", "nodes/status"),
        ("startup-taint", "nodes"),
    ] {
        let name = format!("pinfold-agent-{role}");
        let found = find(&objects, "ClusterRole", &name).ok_or_else(|| format!("no {name}"))?;
        let rules = json!([{ "apiGroups": [""], "resources": [resource], "verbs": ["patch"] }]);
        equal(&name, &found["rules"], &rules)?;
        find(&objects, "ClusterRoleBinding", &name)
            .ok_or_else(|| format!("{name} is not bound"))?;
        let without = super::objects(&helm.template(&file("manage"))?)?;
        equal(
            "roles that nothing needs",
            find(&without, "ClusterRole", &name),
            None,
        )?;
    }
    Ok(())
}

/// The rules as an object of the Prometheus Operator, only if wanted.
pub(super) fn alerting_rules(helm: &Helm) -> Result<(), String> {
    let without = super::objects(&helm.template(&[])?)?;
    let kind = "PrometheusRule";
    equal(
        "not by default",
        find(&without, kind, "pinfold-agent"),
        None,
    )?;
    let wanted = "metrics.rules.create=true,metrics.rules.labels.release=prometheus";
    let objects = super::objects(&helm.template(&["--set".to_owned(), wanted.to_owned()])?)?;
    let found = find(&objects, kind, "pinfold-agent").ok_or("no PrometheusRule")?;
    equal(
        "label",
        &found["metadata"]["labels"]["release"],
        &json!("prometheus"),
    )?;
    let rules = fs::read_to_string(workspace().join("deploy/prometheus/rules.yaml"));
    let rules = parsed(&rules.map_err(|error| error.to_string())?)?;
    equal("rules", &found["spec"], &rules)
}

/// The rules are a KubeletConfiguration that the agent reads, and only sockets that it uses are mounted.
pub(super) fn rules_and_sockets(helm: &Helm) -> Result<(), String> {
    let objects = super::objects(&helm.template(&file("manage"))?)?;
    let map = find(&objects, "ConfigMap", "pinfold-agent").ok_or("no ConfigMap")?;
    let rules = map["data"]["rules.yaml"].as_str().ok_or("no rules.yaml")?;
    let read = KubeletSettings::read("rules.yaml", rules.as_bytes(), Fidelity::Sound);
    let read = read.map_err(|findings| findings.to_string())?;
    equal("warnings", read.warnings.len(), 0)?;
    let config = parsed(map["data"]["agent.yaml"].as_str().unwrap_or_default())?;
    equal(
        "file",
        &config["kubelet"]["configFile"],
        &json!("/etc/pinfold/rules.yaml"),
    )?;
    equal(
        "directory",
        &config["kubelet"]["rootDirectory"],
        &json!("/data/kubelet"),
    )?;
    let set = find(&objects, "DaemonSet", "pinfold-agent").ok_or("no DaemonSet")?;
    let spec = &set["spec"]["template"]["spec"];
    let volume = |name: &str| {
        let mut volumes = spec["volumes"].as_array().into_iter().flatten();
        volumes.find(|volume| volume["name"] == name).cloned()
    };
    let nri = volume("nri").ok_or("no volume nri")?;
    equal("NRI", &nri["hostPath"]["path"], &json!("/run/elsewhere"))?;
    equal("no bus", volume("dbus"), None)?;
    equal("extra volume", volume("scratch").is_some(), true)?;
    let without = super::objects(&helm.template(&[])?)?;
    let map = find(&without, "ConfigMap", "pinfold-agent").ok_or("no ConfigMap")?;
    equal("no rules", &map["data"]["rules.yaml"], &Value::Null)
}

/// The policies of the default values admit no peer, and those of `locked` the named one.
pub(super) fn closed_by_default(helm: &Helm) -> Result<(), String> {
    for (values, peers) in [("", 0), ("locked", 1)] {
        let objects = super::objects(&helm.template(&file(values))?)?;
        for name in ["pinfold-agent", "pinfold-scheduler"] {
            let policy = find(&objects, "NetworkPolicy", name).ok_or("no NetworkPolicy")?;
            // An agent without metrics has no port to admit peers to.
            let is_silent = values == "locked" && name == "pinfold-agent";
            let expected = if is_silent { 0 } else { peers };
            let rules = policy["spec"]["ingress"].as_array().ok_or("no rules")?;
            equal(name, rules.len(), expected)?;
            let is_named =
                |rule: &Value| rule["from"].as_array().is_some_and(|from| !from.is_empty());
            equal(name, rules.iter().all(is_named), true)?;
        }
    }
    Ok(())
}

/// ServiceMonitors and the dashboard, only if wanted.
pub(super) fn monitoring(helm: &Helm) -> Result<(), String> {
    let wanted = "metrics.serviceMonitor.create=true,metrics.dashboard.create=true,metrics.serviceMonitor.labels.release=prometheus";
    let wanted = super::objects(&helm.template(&["--set".to_owned(), wanted.to_owned()])?)?;
    let without = super::objects(&helm.template(&[])?)?;
    for name in ["pinfold-agent", "pinfold-scheduler"] {
        let kind = "ServiceMonitor";
        equal("not by default", find(&without, kind, name), None)?;
        let monitor = find(&wanted, kind, name).ok_or("no ServiceMonitor")?;
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        let service = find(&wanted, "Service", &format!("{name}-metrics")).ok_or("no Service")?;
        let mut labels = selector.as_object().into_iter().flatten();
        let is_selected = labels.all(|(key, value)| service["metadata"]["labels"][key] == *value);
        equal("it selects its service", is_selected, true)?;
    }
    equal(
        "not by default",
        find(&without, "ConfigMap", "pinfold-dashboard"),
        None,
    )?;
    let map = find(&wanted, "ConfigMap", "pinfold-dashboard").ok_or("no dashboard")?;
    let text = map["data"]["pinfold.json"].as_str().unwrap_or_default();
    let dashboard: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    equal("title", &dashboard["title"], &json!("Pinfold"))
}

/// The chart says what to do with an API server that is older than its kube-scheduler.
pub(super) fn older_server(helm: &Helm) -> Result<(), String> {
    let older = |more: &[&str]| {
        let flags = ["--kube-version", "v1.35.0"].iter().chain(more);
        helm.template(&flags.map(|flag| (*flag).to_owned()).collect::<Vec<_>>())
    };
    match older(&[]) {
        Ok(_) => return Err("it was taken".to_owned()),
        Err(problem) => equal("named", problem.contains("scheduler.enabled=false"), true)?,
    }
    older(&["--set", "scheduler.enabled=false"]).map(drop)
}
