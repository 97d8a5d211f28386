//! [`Scheduler`]: the scheduler of scheduler-plugins with NodeResourceTopologyMatch, and the ways in which it is set up.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::control_plane::{Credentials, Process, free_ports};
use crate::peers::programs::Program;
use crate::peers::stage::Stage;

/// The name that pods ask for.
pub(super) const NAME: &str = "topology-aware";

/// The period of the cache.
pub(super) const RESYNC: Duration = Duration::from_secs(1);

const PROGRAM: Program = Program {
    name: "topology-match-scheduler",
    module: "scheduler-plugins",
    package: "sigs.k8s.io/scheduler-plugins/cmd/scheduler",
    uses_c: false,
};

/// How the plugin learns what nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// From the object, for every pod.
    Objects,
    /// From the object, but not while a pod is being bound to the node.
    DiscardReserved,
    /// From its cache, which it replaces when the fingerprint of the pods is that of the object.
    Cache {
        resync: &'static str,
        informer: &'static str,
        /// The method of the agents' fingerprints.
        fingerprint: &'static str,
    },
}

/// Every way, with its name.
pub(super) const WAYS: [(&str, Reads); 5] = [
    ("without its cache", Reads::Objects),
    ("with discardReservedNodes", Reads::DiscardReserved),
    (
        "with its cache, which finds out the method of fingerprints",
        Reads::Cache {
            resync: "Autodetect",
            informer: "Dedicated",
            fingerprint: "with-exclusive-resources",
        },
    ),
    (
        "with its cache and fingerprints of all pods",
        Reads::Cache {
            resync: "All",
            informer: "Dedicated",
            fingerprint: "all",
        },
    ),
    (
        "with its cache and the informer that all plugins share",
        Reads::Cache {
            resync: "All",
            informer: "Shared",
            fingerprint: "exclude-terminal",
        },
    ),
];

impl Reads {
    /// The method of the agents' fingerprints.
    pub(super) fn fingerprint(self) -> &'static str {
        match self {
            Self::Cache { fingerprint, .. } => fingerprint,
            _ => "with-exclusive-resources",
        }
    }

    pub(super) fn has_cache(self) -> bool {
        matches!(self, Self::Cache { .. })
    }

    /// The arguments of the plugin.
    fn arguments(self) -> Value {
        let mut arguments = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourceTopologyMatchArgs",
        });
        match self {
            Self::Objects => {}
            Self::DiscardReserved => arguments["discardReservedNodes"] = true.into(),
            Self::Cache {
                resync, informer, ..
            } => {
                arguments["cacheResyncPeriodSeconds"] = RESYNC.as_secs().into();
                arguments["cache"] = json!({ "resyncMethod": resync, "informerMode": informer });
            }
        }
        arguments
    }
}

/// A running scheduler. It is killed with this.
pub(super) struct Scheduler {
    program: PathBuf,
    arguments: Vec<String>,
    process: Process,
}

impl Scheduler {
    /// Starts it. Its cache knows the objects that are there.
    pub(super) fn start(stage: &Stage, reads: Reads) -> Result<Self, String> {
        let program = PROGRAM.build()?;
        let kubeconfig = stage
            .plane
            .kubeconfig(NAME, &Credentials::Certificate("admin"))?;
        let plugin = json!({ "enabled": [{ "name": "NodeResourceTopologyMatch" }] });
        let configuration = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": { "kubeconfig": kubeconfig, "qps": 5000, "burst": 5000 },
            "leaderElection": { "leaderElect": false },
            // A pod that has to wait is tried again soon after anything changes.
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [{
                "schedulerName": NAME,
                "plugins": { "multiPoint": plugin },
                "pluginConfig": [
                    { "name": "NodeResourceTopologyMatch", "args": reads.arguments() },
                ],
            }],
        });
        let config = stage.plane.folder().join(format!("{NAME}.yaml"));
        fs::write(&config, configuration.to_string())
            .map_err(|error| format!("{}: {error}", config.display()))?;
        let [port] = free_ports()?;
        let arguments = vec![
            format!("--config={}", config.display()),
            "--authentication-skip-lookup=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--v=2".to_owned(),
        ];
        let process = Process::start(&program, stage.plane.folder(), NAME, &arguments)?;
        Ok(Self {
            program,
            arguments,
            process,
        })
    }

    /// Ends it as a crash does, and starts it again.
    pub(super) fn restart(&mut self, stage: &Stage) -> Result<(), String> {
        self.process.kill();
        let folder = stage.plane.folder();
        self.process = Process::start(&self.program, folder, NAME, &self.arguments)?;
        Ok(())
    }

    /// Its configuration, for the command line.
    pub(super) fn configuration(stage: &Stage) -> PathBuf {
        stage.plane.folder().join(format!("{NAME}.yaml"))
    }
}
