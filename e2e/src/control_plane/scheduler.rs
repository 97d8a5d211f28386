//! kube-scheduler: alone, or with the plugin Pinfold.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ControlPlane, Credentials, Process, free_ports, sources, write};

/// A kube-scheduler for pods that ask for it by name.
pub(crate) struct Scheduler {
    /// The name that pods ask for.
    pub(crate) name: &'static str,
    /// The socket of the engine that its plugin asks, if it has the plugin.
    pub(crate) engine: Option<PathBuf>,
    /// How often it may ask the API server.
    pub(crate) queries: Queries,
    /// Whether several of this name elect a leader.
    pub(crate) elects: bool,
}

/// How often kube-scheduler may ask the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Queries {
    /// As often as it wants to.
    #[default]
    Unlimited,
    /// Its default request rate: 50 per second, and 100 at once.
    AsShipped,
}

impl Queries {
    /// Per second, and at once.
    fn limits(self) -> (u32, u32) {
        match self {
            Queries::Unlimited => (5000, 5000),
            Queries::AsShipped => (50, 100),
        }
    }
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
    let (often, at_once) = scheduler.queries.limits();
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": often, "burst": at_once },
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
