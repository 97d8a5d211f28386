//! kube-scheduler: alone, or with the plugin Pinfold.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ControlPlane, Credentials, Process, free_ports, sources, write};

/// The requests per second that a kube-scheduler may send: as many as it can.
const QUERIES: u32 = 5000;

/// A kube-scheduler for pods that ask for it by name.
pub(crate) struct Scheduler {
    /// The name that pods ask for.
    pub(crate) name: &'static str,
    /// The socket of the engine that its plugin asks, if it has the plugin.
    pub(crate) engine: Option<PathBuf>,
    /// Whether several of this name elect a leader.
    pub(crate) elects: bool,
}

impl ControlPlane {
    /// Starts a kube-scheduler.
    pub(crate) fn scheduler(&self, scheduler: &Scheduler) -> Result<Process, String> {
        let program = match &scheduler.engine {
            Some(_) => sources::build_plugin()?,
            None => sources::build(&["kube-scheduler"])?.join("kube-scheduler"),
        };
        let kubeconfig = self.kubeconfig("scheduler", &Credentials::Certificate("admin"))?;
        let [port] = free_ports()?;
        let config = self.folder.join(format!("{}-{port}.yaml", scheduler.name));
        write(&config, &configuration(scheduler, &kubeconfig).to_string())?;
        let arguments = [
            format!("--config={}", config.display()),
            "--authentication-skip-lookup=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--v=2".to_owned(),
        ];
        let log = format!("kube-scheduler-{}", scheduler.name);
        Process::start(&program, &self.folder, &log, &arguments)
    }
}

fn configuration(scheduler: &Scheduler, kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": QUERIES, "burst": QUERIES },
        "leaderElection": {
            "leaderElect": scheduler.elects, "resourceName": scheduler.name,
            "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms",
        },
        // A pod that has to wait is tried again soon after anything changes.
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [profile(scheduler)],
    })
}

fn profile(scheduler: &Scheduler) -> Value {
    let Some(socket) = &scheduler.engine else {
        return json!({ "schedulerName": scheduler.name });
    };
    let enabled = json!({ "enabled": [{ "name": "Pinfold" }] });
    json!({
        "schedulerName": scheduler.name,
        "plugins": { "multiPoint": enabled, "postFilter": enabled, "bind": enabled },
        "pluginConfig": [{ "name": "Pinfold", "args": { "socket": socket, "timeout": "30s" } }],
    })
}
