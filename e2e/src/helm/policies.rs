//! What the chart's admission policies let users and agents write.

use serde_json::{Value, json};

use super::NAMESPACE;
use super::reader::eventually;
use crate::control_plane::{Admin, ControlPlane, Credentials};
use crate::report::equal;

const PODS: &str = "/api/v1/namespaces/default/pods";
const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
const STATUS: &str = "scheduling.koordinator.sh/resource-status";

/// A user with all permissions, and the agent of worker-1, on the nodes that the reader's check made.
pub(super) fn keep_out(plane: &ControlPlane, admin: &Admin) -> Result<(), String> {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "author"}});
    admin.expect("POST", accounts, Some(&account))?;
    for (namespace, name) in [("default", "author"), (NAMESPACE, "pinfold-agent")] {
        let binding = json!({
            "metadata": {"name": format!("all-{name}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        admin.expect("POST", bindings, Some(&binding))?;
    }
    let author = as_account(plane, admin, "default", "author", &json!({}))?;
    // Policies take effect a moment after they were made.
    eventually(|| {
        forbidden(
            &author,
            "POST",
            PODS,
            &pod("chosen", &json!({STATUS: "{}"})),
        )
    })?;
    author.expect("POST", PODS, Some(&pod("plain", &json!({}))))?;
    let plain = format!("{PODS}/plain");
    let annotated = |key: &str| json!({"metadata": {"annotations": {key: "{}"}}});
    author.expect("PATCH", &plain, Some(&annotated("other")))?;
    for path in [plain.clone(), format!("{plain}/status")] {
        forbidden(&author, "PATCH", &path, &annotated(STATUS))?;
        forbidden(
            &author,
            "PATCH",
            &path,
            &annotated("pinfold.dev/generation"),
        )?;
    }
    let scheduler = as_account(plane, admin, NAMESPACE, "pinfold-scheduler", &json!({}))?;
    let binding = json!({
        "metadata": {"name": "plain", "annotations": {STATUS: "{}"}},
        "target": {"kind": "Node", "name": "worker-1"},
    });
    let path = format!("{plain}/binding");
    forbidden(&author, "POST", &path, &binding)?;
    scheduler.expect("POST", &path, Some(&binding))?;
    let bound = admin.expect("GET", &plain, None)?;
    let written = &bound["metadata"]["annotations"][STATUS];
    equal("the scheduler's annotation", written, &json!("{}"))?;
    agents(plane, admin)
}

/// An agent writes the objects of its node, and of no other.
fn agents(plane: &ControlPlane, admin: &Admin) -> Result<(), String> {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let mut agent = pod("agent", &json!({}));
    agent["spec"]["nodeName"] = "worker-1".into();
    agent["spec"]["serviceAccountName"] = "pinfold-agent".into();
    let agent = admin.expect("POST", &pods, Some(&agent))?;
    let bound = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "agent", "uid": agent["metadata"]["uid"],
    });
    let of_pod = json!({"boundObjectRef": bound});
    let own = as_account(plane, admin, NAMESPACE, "pinfold-agent", &of_pod)?;
    let anywhere = as_account(plane, admin, NAMESPACE, "pinfold-agent", &json!({}))?;
    let change = json!({"metadata": {"labels": {"changed": "true"}}});
    for (path, is_own) in [
        (format!("{TOPOLOGIES}/worker-1"), true),
        (format!("{TOPOLOGIES}/worker-2"), false),
        ("/api/v1/nodes/worker-1".to_owned(), true),
        ("/api/v1/nodes/worker-2/status".to_owned(), false),
    ] {
        match is_own {
            true => own.expect("PATCH", &path, Some(&change)).map(drop)?,
            false => forbidden(&own, "PATCH", &path, &change)?,
        }
        // A token that was made for no pod names no node.
        forbidden(&anywhere, "PATCH", &path, &change)?;
    }
    Ok(())
}

fn forbidden(user: &Admin, method: &str, path: &str, body: &Value) -> Result<(), String> {
    let (code, answer) = user.ask(method, path, Some(body))?;
    let message = answer["message"].as_str().unwrap_or_default();
    let by_policy = code == 403 && message.contains("ValidatingAdmissionPolicy 'pinfold-");
    match by_policy {
        true => Ok(()),
        false => Err(format!("{method} {path} is let through: {code} {message}")),
    }
}

/// A user with a token of this service account.
fn as_account(
    plane: &ControlPlane,
    admin: &Admin,
    namespace: &str,
    name: &str,
    spec: &Value,
) -> Result<Admin, String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let answer = admin.expect("POST", &path, Some(&json!({"spec": spec})))?;
    let token = answer["status"]["token"].as_str().unwrap_or_default();
    Admin::new(&plane.kubeconfig("account", &Credentials::Token(token))?)
}

fn pod(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none"}],
        },
    })
}
