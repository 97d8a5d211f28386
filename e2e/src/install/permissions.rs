//! What the accounts of the chart asked the API server for, beside what its roles grant.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::node::Cluster;
use crate::programs::workspace;
use crate::report::equal;

/// The files with the roles of the chart.
const FILES: [&str; 5] = [
    "deploy/agent/rbac.yaml",
    "deploy/agent/rbac-node-condition.yaml",
    "deploy/agent/rbac-startup-taint.yaml",
    "deploy/scheduler/rbac.yaml",
    "deploy/helm/pinfold/templates/reader.yaml",
];

/// The accounts of the chart.
const ACCOUNTS: [&str; 3] = ["pinfold-agent", "pinfold-scheduler", "pinfold-test"];

/// Granted and not asked for in the log, with the reason.
const UNSEEN: [(&str, &str); 6] = [
    (
        "pinfold-agent  nodes/configz get",
        "the kubelet asks for it in the agent's name, in a review whose content the log does not have",
    ),
    (
        "pinfold-agent  events patch",
        "only an event that repeats is patched",
    ),
    (
        "pinfold-scheduler  events create",
        "the engine writes events only about pods that other schedulers bound badly",
    ),
    ("pinfold-scheduler  events patch", "the same"),
    (
        "pinfold-test  namespaces list",
        "for kubectl pinfold explain and snapshot; the account runs doctor",
    ),
    (
        "pinfold-test nodeinfo.volcano.sh numatopologies list",
        "for clusters with Volcano; the account runs doctor",
    ),
];

/// Fails for a request that was forbidden, and, after all stories, for a verb that is granted and was not used.
pub(super) fn compare(cluster: &Cluster, complete: bool) -> Result<(), String> {
    let path = cluster.plane.folder().join("audit.log");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut forbidden, mut used) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let account = user.strip_prefix("system:serviceaccount:pinfold-system:");
        let Some(account) = account.filter(|account| ACCOUNTS.contains(account)) else {
            continue;
        };
        let asked = asked(&event);
        let annotations = &event["annotations"];
        match annotations["authorization.k8s.io/decision"].as_str() {
            Some("allow") => {
                used.insert(format!("{account} {asked}"));
            }
            _ => {
                forbidden.insert(format!("{account} {asked}"));
            }
        }
    }
    let granted = granted()?;
    // What a role grants is forbidden only once an uninstallation has removed the role, while the pods end.
    forbidden.retain(|request| !granted.contains(request));
    equal("forbidden", forbidden, BTreeSet::new())?;
    if !complete {
        return Ok(());
    }
    equal("requests were seen", used.len() > 20, true)?;
    let unused: BTreeSet<String> = granted.difference(&used).cloned().collect();
    let expected: BTreeSet<String> = UNSEEN.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    let surplus: BTreeSet<&String> = unused.difference(&expected).collect();
    equal("granted and not used", surplus, BTreeSet::new())
}

/// `GROUP RESOURCE VERB` of a request.
fn asked(event: &Value) -> String {
    let object = &event["objectRef"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = match object["subresource"].as_str() {
        Some(sub) => format!("{}/{sub}", word(&object["resource"])),
        None => word(&object["resource"]),
    };
    let resource = match resource.is_empty() {
        true => word(&event["requestURI"]),
        false => resource,
    };
    format!(
        "{} {resource} {}",
        word(&object["apiGroup"]),
        word(&event["verb"])
    )
}

/// The account that a role is bound to.
fn account_of(role: &str) -> &str {
    match role {
        "pinfold-reader" => "pinfold-test",
        _ if role.starts_with("pinfold-agent") => "pinfold-agent",
        _ => role,
    }
}

/// `ACCOUNT GROUP RESOURCE VERB` of every rule.
fn granted() -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for file in FILES {
        let path = workspace().join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        // The chart's own file is a template.
        let lines = text.lines().filter(|line| !line.contains("{{"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        let objects: Vec<Option<Value>> =
            serde_saphyr::from_multiple(&text).map_err(|error| format!("{file}: {error}"))?;
        for object in objects.into_iter().flatten() {
            let role = object["metadata"]["name"].as_str().unwrap_or_default();
            let name = account_of(role);
            for rule in object["rules"].as_array().into_iter().flatten() {
                let words = |member: &str| {
                    let list = rule[member].as_array().into_iter().flatten();
                    list.filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                };
                for group in words("apiGroups") {
                    for resource in words("resources") {
                        found.extend(
                            words("verbs")
                                .iter()
                                .map(|verb| format!("{name} {group} {resource} {verb}")),
                        );
                    }
                }
            }
        }
    }
    match found.len() {
        0 => Err("no role was read".to_owned()),
        _ => Ok(found),
    }
}
