//! The suite of the Helm chart, with a real Helm and a real API server: what it renders, rejects, installs, keeps when it
//! is upgraded, and takes away.

mod policies;
pub(crate) mod program;
mod reader;
mod rendered;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_agent::config::AgentConfig;
use pinfold_scheduler::config::EngineConfig;
use serde_json::{Value, json};

use self::program::Helm;
use crate::control_plane::{Admin, ControlPlane, Credentials};
use crate::programs::{self, succeed, workspace};
use crate::report::{Report, equal};

/// Where everything goes.
const NAMESPACE: &str = "pinfold-system";
/// The sets of values that are rendered and installed; the first is none at all.
const VALUES: [&str; 6] = [
    "",
    "manage",
    "locked",
    "agent-only",
    "scheduler-only",
    "node-groups",
];

/// Values that the schema rejects, and what it must name.
const REFUSED: [(&str, &str); 18] = [
    ("agent.confg.mode=mirror", "confg"),
    ("agent.config.mode=both", "/agent/config/mode"),
    ("agent.config.nodeName=worker-1", "/agent/config/nodeName"),
    ("scheduler.replicas=0", "/scheduler/replicas"),
    (
        "scheduler.pluginArgs.socket=/run/a",
        "/scheduler/pluginArgs",
    ),
    ("scheduler.config.socket=/run/a", "/scheduler/config"),
    ("image.registry=", "/image/registry"),
    ("agent.rules.kind=Pod", "/agent/rules"),
    (
        "agent.rules.cpuManagerPolicy=static,agent.config.kubelet.configFile=/etc/rules.yaml",
        "expected one of them",
    ),
    (
        "metrics.serviceMonitor.interval=often",
        "/metrics/serviceMonitor/interval",
    ),
    (
        "scheduler.topologySpreadConstraints[0].maxSkew=1",
        "topologyKey",
    ),
    ("agent.logLevel=loud", "/agent/logLevel"),
    ("networkPolicy.enabled=maybe", "/networkPolicy/enabled"),
    (
        "agent.config.kubernetes.startupTaint=key:Never",
        "/agent/config/kubernetes/startupTaint",
    ),
    ("agent.nodeGroups[0].name=a", "nodeSelector"),
    (
        "agent.nodeGroups[0].name=A,agent.nodeGroups[0].nodeSelector.pool=a",
        "/agent/nodeGroups/0/name",
    ),
    (
        "agent.nodeGroups[0].name=a,agent.nodeGroups[0].nodeSelector.pool=a,\
         agent.nodeGroups[1].name=b,agent.nodeGroups[1].nodeSelector.zone=b",
        "a and b may select the same node",
    ),
    (
        "agent.nodeGroups[0].name=a,agent.nodeGroups[0].nodeSelector.pool=a,\
         agent.nodeGroups[1].name=a,agent.nodeGroups[1].nodeSelector.pool=b",
        "a and a may select the same node",
    ),
];

/// Runs the suite.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-helm-{}", std::process::id()));
    if let Err(problem) = story(report, &folder) {
        report.check("helm", Err(problem));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn story(report: &mut Report, folder: &Path) -> Result<(), String> {
    let helm = Helm::build()?;
    report.check("helm: the chart is without fault", helm.lint().map(drop));
    for (value, named) in REFUSED {
        let name = format!("helm: {value} is rejected and named");
        report.check(name, rejected(&helm, value, named));
    }
    for values in VALUES {
        let shown = if values.is_empty() { "no" } else { values };
        let rendered = helm.template(&file(values));
        let rendered = rendered.and_then(|text| objects(&text));
        let checked = rendered.and_then(|objects| {
            configurations(&objects)?;
            roles(&objects)?;
            links(&objects)
        });
        report.check(
            format!("helm: {shown} values render what is accepted"),
            checked,
        );
    }
    report.check(
        "helm: every node group has its own configuration, nodes and permissions",
        rendered::node_groups(&helm),
    );
    report.check(
        "helm: the alerting rules are those of deploy/prometheus",
        rendered::alerting_rules(&helm),
    );
    report.check("helm: promtool tests the alerting rules", promtool());
    report.check(
        "helm: rules and sockets are where the agent looks for them",
        rendered::rules_and_sockets(&helm),
    );
    report.check(
        "helm: no peer may connect that is not named",
        rendered::closed_by_default(&helm),
    );
    report.check(
        "helm: monitors and the dashboard are made if wanted",
        rendered::monitoring(&helm),
    );
    report.check(
        "helm: an older API server gets no kube-scheduler of 1.36",
        rendered::older_server(&helm),
    );
    let plane = ControlPlane::start(folder)?;
    let admin = plane.admin()?;
    let kubeconfig = plane.kubeconfig("helm", &Credentials::Certificate("admin"))?;
    let helm = helm.on(&kubeconfig);
    report.check("helm: a dry run changes nothing", dry_run(&helm, &admin));
    report.check("helm: it is installed", installed(&helm, &admin));
    report.check(
        "helm: a reader sees the cluster with kubectl's plugin",
        reader::sees_the_cluster(&plane, &admin),
    );
    report.check(
        "helm: only schedulers write their annotations, and an agent objects of its own node",
        policies::keep_out(&plane, &admin),
    );
    report.check(
        "helm: an upgrade changes the replicas",
        upgraded(&helm, &admin),
    );
    for values in VALUES {
        let shown = if values.is_empty() { "no" } else { values };
        let checked = helm.upgrade(&file(values)).map(drop);
        report.check(format!("helm: the server takes {shown} values"), checked);
    }
    report.check(
        "helm: it is taken away and leaves the reports of nodes",
        uninstalled(&helm, &admin),
    );
    Ok(())
}

/// The flags that name a set of values.
fn file(values: &str) -> Vec<String> {
    if values.is_empty() {
        return Vec::new();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("helm/values/{values}.yaml"));
    vec!["--values".to_owned(), path.display().to_string()]
}

fn objects(text: &str) -> Result<Vec<Value>, String> {
    let all: Vec<Option<Value>> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(all.into_iter().flatten().collect())
}

fn rejected(helm: &Helm, value: &str, named: &str) -> Result<(), String> {
    match helm.template(&["--set".to_owned(), value.to_owned()]) {
        Ok(_) => Err("it was taken".to_owned()),
        Err(problem) if problem.contains(named) => Ok(()),
        Err(problem) => Err(format!("expected {named} to be named: {problem}")),
    }
}

fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> Option<&'o Value> {
    let mut objects = objects.iter();
    objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

/// The programs accept the rendered configuration, and every field of it has its effect.
fn configurations(objects: &[Value]) -> Result<(), String> {
    let mut seen = 0;
    let agents = objects.iter().filter(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object["kind"] == "ConfigMap" && name.starts_with("pinfold-agent")
    });
    for map in agents {
        let text = map["data"]["agent.yaml"].as_str().unwrap_or_default();
        let read = AgentConfig::read("agent.yaml", text.as_bytes());
        let read = read.map_err(|findings| findings.to_string())?;
        equal("warnings", read.warnings.len(), 0)?;
        let written = serde_json::to_value(&read.value).map_err(|error| error.to_string())?;
        contains("agent.yaml", &written, &parsed(text)?)?;
        seen += 1;
    }
    if let Some(map) = find(objects, "ConfigMap", "pinfold-scheduler") {
        let text = map["data"]["scheduler.yaml"].as_str().unwrap_or_default();
        scheduler(text)?;
        seen += 1;
    }
    match seen {
        0 => Err("no configuration at all".to_owned()),
        _ => Ok(()),
    }
}

fn scheduler(text: &str) -> Result<(), String> {
    let read = EngineConfig::read("scheduler.yaml", text.as_bytes());
    let read = read.map_err(|findings| findings.to_string())?;
    equal("warnings", read.warnings.len(), 0)?;
    let written = serde_json::to_value(&read.value).map_err(|error| error.to_string())?;
    contains("scheduler.yaml", &written, &parsed(text)?)
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// Everything in `part` is in `whole`.
fn contains(path: &str, whole: &Value, part: &Value) -> Result<(), String> {
    let Some(members) = part.as_object() else {
        return equal(path, whole, part);
    };
    for (key, value) in members {
        contains(&format!("{path}: {key}"), &whole[key], value)?;
    }
    Ok(())
}

/// The rendered roles are those of the plain manifests.
fn roles(objects: &[Value]) -> Result<(), String> {
    for (part, path) in [
        ("pinfold-agent", "deploy/agent/rbac.yaml"),
        ("pinfold-scheduler", "deploy/scheduler/rbac.yaml"),
    ] {
        if find(objects, "ServiceAccount", part).is_none() {
            continue;
        }
        let path = workspace().join(path);
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        for expected in self::objects(&text)? {
            let kind = expected["kind"].as_str().unwrap_or_default();
            if kind == "Namespace" {
                continue;
            }
            let name = expected["metadata"]["name"].as_str().unwrap_or_default();
            let found = find(objects, kind, name);
            let found = found.ok_or_else(|| format!("no {kind} {name}"))?;
            for member in ["rules", "roleRef", "subjects"] {
                equal(
                    &format!("{kind} {name}: {member}"),
                    &found[member],
                    &expected[member],
                )?;
            }
        }
    }
    Ok(())
}

/// Runs Prometheus' tests of the rules.
fn promtool() -> Result<(), String> {
    programs::install_promtool()?;
    let tests = workspace().join("deploy/prometheus/rules.test.yaml");
    let mut promtool = Command::new("promtool");
    succeed(promtool.args(["test", "rules"]).arg(tests)).map(drop)
}

/// Whatever a pod names is there under that name: its account, its configuration, its volumes, its ports.
fn links(objects: &[Value]) -> Result<(), String> {
    for workload in objects {
        let spec = &workload["spec"]["template"]["spec"];
        if spec.is_null() {
            continue;
        }
        let account = spec["serviceAccountName"].as_str().unwrap_or_default();
        find(objects, "ServiceAccount", account).ok_or_else(|| format!("no account {account}"))?;
        for volume in spec["volumes"].as_array().into_iter().flatten() {
            if let Some(name) = volume["configMap"]["name"].as_str() {
                find(objects, "ConfigMap", name).ok_or_else(|| format!("no ConfigMap {name}"))?;
            }
        }
        let volumes: Vec<&Value> = spec["volumes"].as_array().into_iter().flatten().collect();
        let containers = || spec["containers"].as_array().into_iter().flatten();
        for mount in
            containers().flat_map(|own| own["volumeMounts"].as_array().into_iter().flatten())
        {
            let known = volumes.iter().any(|volume| volume["name"] == mount["name"]);
            equal(&format!("volume {}", mount["name"]), known, true)?;
        }
        for service in objects.iter().filter(|object| object["kind"] == "Service") {
            if !matches(&service["spec"]["selector"], &workload["spec"]["template"]) {
                continue;
            }
            let port = &service["spec"]["ports"][0]["targetPort"];
            let mut ports =
                containers().flat_map(|own| own["ports"].as_array().into_iter().flatten());
            let known = ports.any(|own| own["name"] == *port);
            equal(&format!("port {port}"), known, true)?;
        }
    }
    Ok(())
}

fn matches(selector: &Value, template: &Value) -> bool {
    let labels = &template["metadata"]["labels"];
    let mut wanted = selector.as_object().into_iter().flatten();
    wanted.all(|(key, value)| labels[key] == *value)
}

fn dry_run(helm: &Helm, admin: &Admin) -> Result<(), String> {
    helm.install(&["--dry-run=server".to_owned()])?;
    let namespaces = admin.expect("GET", "/api/v1/namespaces", None)?;
    let names = namespaces["items"].as_array().into_iter().flatten();
    let mut names = names.map(|item| &item["metadata"]["name"]);
    equal("a namespace", names.any(|name| name == NAMESPACE), false)
}

fn installed(helm: &Helm, admin: &Admin) -> Result<(), String> {
    helm.install(&[])?;
    for path in [
        "/apis/apps/v1/namespaces/pinfold-system/daemonsets/pinfold-agent",
        "/apis/apps/v1/namespaces/pinfold-system/deployments/pinfold-scheduler",
        "/api/v1/namespaces/pinfold-system/services/pinfold-scheduler-metrics",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/pinfold-reader",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/numatopologies.nodeinfo.volcano.sh",
    ] {
        admin.expect("GET", path, None)?;
    }
    let deployment = admin.expect(
        "GET",
        "/apis/apps/v1/namespaces/pinfold-system/deployments/pinfold-scheduler",
        None,
    )?;
    equal("replicas", &deployment["spec"]["replicas"], &json!(2))
}

fn upgraded(helm: &Helm, admin: &Admin) -> Result<(), String> {
    helm.upgrade(&["--set".to_owned(), "scheduler.replicas=3".to_owned()])?;
    let deployment = admin.expect(
        "GET",
        "/apis/apps/v1/namespaces/pinfold-system/deployments/pinfold-scheduler",
        None,
    )?;
    equal("replicas", &deployment["spec"]["replicas"], &json!(3))
}

fn uninstalled(helm: &Helm, admin: &Admin) -> Result<(), String> {
    helm.uninstall()?;
    let path = "/apis/apps/v1/namespaces/pinfold-system/daemonsets/pinfold-agent";
    let (code, found) = admin.ask("GET", path, None)?;
    // Without a controller that collects garbage the object may wait for it.
    let leaving = found["metadata"]["deletionTimestamp"].is_string();
    equal("the agent is gone", code == 404 || leaving, true)?;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/pinfold-agent";
    equal("the role is gone", admin.ask("GET", role, None)?.0, 404)?;
    let reports = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io";
    admin.expect("GET", reports, None).map(drop)
}

/// Where the chart is.
fn chart() -> PathBuf {
    workspace().join("deploy/helm/pinfold")
}
