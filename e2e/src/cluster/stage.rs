//! [`Stage`]: a control plane with everything that the stories play on.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::kubelets::{Kubelets, TOPOLOGIES};
use super::pods::PODS;
use crate::control_plane::{Admin, ControlPlane, Credentials, PATIENCE, Process};
use crate::programs::workspace;
use crate::report::equal;

/// How soon a played node reports a change: agents take their time too.
const REPORTS: Duration = Duration::from_millis(500);

/// The running programs and the played kubelets. They end in this order.
pub(crate) struct Stage {
    pub(crate) kubelets: Kubelets,
    pub(crate) admin: Admin,
    _controllers: Process,
    pub(crate) plane: ControlPlane,
}

impl Stage {
    /// Starts everything but schedulers.
    pub(crate) fn build(folder: &Path) -> Result<Self, String> {
        let plane = ControlPlane::start(folder)?;
        let admin = plane.admin()?;
        let deploy = workspace().join("deploy/crds");
        for file in ["noderesourcetopologies.yaml", "numatopologies.yaml"] {
            admin.create(&deploy.join(file))?;
        }
        let controllers = plane.controllers()?;
        eventually("the definitions are served", || {
            admin.expect("GET", TOPOLOGIES, None)
        })?;
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        eventually("pods can be made", || admin.expect("GET", account, None))?;
        let kubeconfig = plane.kubeconfig("kubelets", &Credentials::Certificate("admin"))?;
        let kubelets = Kubelets::start(&kubeconfig, REPORTS)?;
        Ok(Self {
            kubelets,
            admin,
            _controllers: controllers,
            plane,
        })
    }

    /// All pods of the suite by name.
    pub(crate) fn pods(&self) -> Result<BTreeMap<String, Value>, String> {
        let mut list = self.admin.expect("GET", PODS, None)?;
        let pods = list["items"].as_array_mut().ok_or("no pods")?;
        let named = pods.iter_mut().map(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            (name.to_owned(), pod.take())
        });
        Ok(named.collect())
    }

    /// Creates a pod.
    pub(crate) fn create(&self, pod: &Value) -> Result<(), String> {
        self.admin.expect("POST", PODS, Some(pod)).map(drop)
    }

    /// Deletes a pod at once.
    pub(crate) fn delete(&self, name: &str) -> Result<(), String> {
        let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
        self.admin.expect("DELETE", &path, None).map(drop)
    }

    /// Waits until a pod runs; the node it runs on.
    pub(crate) fn runs(&self, name: &str) -> Result<String, String> {
        eventually(&format!("{name} runs"), || {
            let pod = self.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
            match pod["status"]["phase"].as_str() {
                Some("Running") => Ok(pod["spec"]["nodeName"].as_str().unwrap_or("").to_owned()),
                _ => Err(pod["status"].to_string()),
            }
        })
    }

    /// Waits until the pod is Unschedulable; the message of the condition.
    pub(crate) fn waits(&self, name: &str) -> Result<String, String> {
        eventually(&format!("{name} waits"), || {
            let pod = self.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
            let conditions = pod["status"]["conditions"].as_array();
            let scheduled = conditions.into_iter().flatten();
            let scheduled = scheduled.filter(|condition| condition["type"] == "PodScheduled");
            let reason = scheduled
                .filter(|condition| condition["reason"] == "Unschedulable")
                .find_map(|condition| condition["message"].as_str());
            reason
                .map(str::to_owned)
                .ok_or_else(|| pod["status"].to_string())
        })
    }

    /// Deletes every pod of the suite at once.
    pub(crate) fn delete_pods(&self) -> Result<(), String> {
        // Pending pods first: they would be bound while the others are deleted.
        for selector in ["&fieldSelector=spec.nodeName%3D", ""] {
            let path = format!("{PODS}?gracePeriodSeconds=0{selector}");
            self.admin.expect("DELETE", &path, None)?;
        }
        Ok(())
    }

    /// The same, and waits until they are gone.
    pub(crate) fn clear_pods(&self) -> Result<(), String> {
        self.delete_pods()?;
        eventually("all pods are gone", || match self.pods()?.len() {
            0 => Ok(()),
            left => Err(format!("{left} pods are left")),
        })
    }

    /// The same, and the played kubelets have noticed.
    pub(crate) fn clear(&self) -> Result<(), String> {
        self.clear_pods()?;
        eventually("the kubelets have noticed", || {
            equal("pods and reports", self.kubelets.settled(), (0, true))
        })
    }
}

/// Waits until it works; the last problem otherwise.
pub(crate) fn eventually<T>(
    what: &str,
    mut tried: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match tried() {
            Ok(value) => return Ok(value),
            Err(problem) if Instant::now() > deadline => return Err(format!("{what}: {problem}")),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
