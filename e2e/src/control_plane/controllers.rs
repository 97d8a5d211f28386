//! kube-controller-manager: what makes pods of deployments, keeps watch over nodes, and clears up.

use super::{ControlPlane, Credentials, Process, free_ports, sources};

/// What the suites need. Nothing here has a cloud, volumes or addresses to manage.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,daemonset-controller,\
node-lifecycle-controller,garbage-collector-controller,pod-garbage-collector-controller,\
serviceaccount-controller,namespace-controller";

impl ControlPlane {
    /// Starts kube-controller-manager with what most suites need.
    pub(crate) fn controllers(&self) -> Result<Process, String> {
        self.controllers_of(CONTROLLERS)
    }

    /// Starts kube-controller-manager with all its default controllers.
    pub(crate) fn every_controller(&self) -> Result<Process, String> {
        self.controllers_of("*")
    }

    fn controllers_of(&self, controllers: &str) -> Result<Process, String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let programs = sources::build(&["kube-controller-manager"])?;
        let kubeconfig = self.kubeconfig("controllers", &Credentials::Certificate("admin"))?;
        let [port] = free_ports()?;
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={controllers}"),
            format!("--root-ca-file={}", file("ca.crt")),
            format!(
                "--service-account-private-key-file={}",
                file("accounts.key")
            ),
            "--leader-elect=false".to_owned(),
            "--authentication-skip-lookup=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // Nodes that are played by a test have no heart that could beat.
            "--node-monitor-grace-period=2h".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=500".to_owned(),
        ];
        let program = programs.join("kube-controller-manager");
        Process::start(
            &program,
            &self.folder,
            "kube-controller-manager",
            &arguments,
        )
    }
}
