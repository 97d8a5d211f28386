//! kube-scheduler: alone, or with a scheduler extender.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ControlPlane, Credentials, Process, free_ports, sources, write};

/// How kube-scheduler reaches an extender.
#[derive(Clone, Debug)]
pub(crate) struct Extender {
    /// Where it listens on this machine.
    pub(crate) port: u16,
    /// The files of the client: its certificate, its key, and the authority of the extender.
    pub(crate) tls: Option<[PathBuf; 3]>,
}

impl Extender {
    /// The entry of a `KubeSchedulerConfiguration`.
    fn entry(&self) -> Value {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut entry = json!({
            "urlPrefix": format!("{scheme}://127.0.0.1:{}", self.port),
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": 1,
            "nodeCacheCapable": true,
            "ignorable": false,
            "httpTimeout": "30s",
        });
        if let Some([certificate, key, authority]) = &self.tls {
            entry["enableHTTPS"] = true.into();
            entry["tlsConfig"] = json!({
                "certFile": certificate, "keyFile": key, "caFile": authority,
            });
        }
        entry
    }
}

/// A kube-scheduler for pods that ask for it by name.
pub(crate) struct Scheduler {
    /// The name that pods ask for.
    pub(crate) name: &'static str,
    /// The extender that it asks, if any.
    pub(crate) extender: Option<Extender>,
    /// How often it may ask the API server.
    pub(crate) queries: Queries,
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
        let programs = sources::build(&["kube-scheduler"])?;
        let kubeconfig = self.kubeconfig("scheduler", &Credentials::Certificate("admin"))?;
        let config = self.folder.join(format!("{}.yaml", scheduler.name));
        write(&config, &configuration(scheduler, &kubeconfig).to_string())?;
        let [port] = free_ports()?;
        let arguments = [
            format!("--config={}", config.display()),
            "--authentication-skip-lookup=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--v=2".to_owned(),
        ];
        let log = format!("kube-scheduler-{}", scheduler.name);
        Process::start(
            &programs.join("kube-scheduler"),
            &self.folder,
            &log,
            &arguments,
        )
    }
}

fn configuration(scheduler: &Scheduler, kubeconfig: &Path) -> Value {
    let (often, at_once) = scheduler.queries.limits();
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": often, "burst": at_once },
        "leaderElection": { "leaderElect": false },
        // A pod that has to wait is tried again soon after anything changes.
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{ "schedulerName": scheduler.name }],
        "extenders": scheduler.extender.iter().map(Extender::entry).collect::<Vec<_>>(),
    })
}
