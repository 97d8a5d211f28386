//! [`HostPort`]: the ports of the host that pods use.

use std::collections::BTreeMap;
use std::fmt;

use pinfold_core::name::PodUid;

use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// The address that stands for all addresses of the host.
const ANY: &str = "0.0.0.0";

/// A port of the host that a container uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The address; `0.0.0.0` for all.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The number.
    pub port: i64,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip.as_str() {
            ANY => write!(f, "{} {}", self.protocol, self.port),
            ip => write!(f, "{} {ip}:{}", self.protocol, self.port),
        }
    }
}

impl HostPort {
    /// Whether both cannot be in use on the same host. Mirrors `HostPortInfo.CheckConflict`.
    #[must_use]
    pub fn conflicts_with(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ANY || other.ip == ANY)
    }
}

/// The host ports of the pods on one node. Pods without host ports take no space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedPorts {
    by_pod: BTreeMap<PodUid, Vec<HostPort>>,
}

impl UsedPorts {
    /// Adds the ports of a pod.
    pub fn add(&mut self, pod: &PodUid, ports: &[HostPort]) {
        if !ports.is_empty() {
            self.by_pod.insert(pod.clone(), ports.to_vec());
        }
    }

    /// Removes the ports of a pod.
    pub fn remove(&mut self, pod: &PodUid) {
        self.by_pod.remove(pod);
    }

    /// The first of these ports that a pod on the node uses.
    #[must_use]
    pub fn conflict<'p>(&self, ports: &'p [HostPort]) -> Option<&'p HostPort> {
        let is_used = |port: &HostPort| {
            let mut used = self.by_pod.values().flatten();
            used.any(|own| own.conflicts_with(port))
        };
        ports.iter().find(|port| is_used(port))
    }
}

/// The host ports of the app containers and sidecars of a pod's `spec`.
pub(super) fn read(spec: &FieldRef<'_>, report: &mut DiagnosticReport) -> Vec<HostPort> {
    let mut found = Vec::new();
    let apps = spec.get_list("containers", "a list", report);
    let inits = spec.get_list("initContainers", "a list", report);
    let is_sidecar = |container: &&FieldRef<'_>| {
        (container.get("restartPolicy")).is_some_and(|policy| policy.is_text("Always"))
    };
    let on_host = spec.get("hostNetwork");
    let on_host = on_host.and_then(|field| field.boolean("true or false", report)) == Some(true);
    for container in apps.iter().chain(inits.iter().filter(is_sidecar)) {
        for port in container.get_list("ports", "a list", report) {
            // The API server sets the host port of a pod in the host's network to the container port.
            let number = port.get("hostPort").or_else(|| {
                let container_port = port.get("containerPort");
                container_port.filter(|_| on_host)
            });
            let number = number.and_then(|field| field.integer("a port", report));
            let Some(number) = number.filter(|&number| number > 0) else {
                continue;
            };
            let text = |key: &str, default: &str, report: &mut DiagnosticReport| {
                let found = port.get_text(key, "text", report).unwrap_or_default();
                let found = if found.is_empty() { default } else { found };
                found.to_owned()
            };
            found.push(HostPort {
                ip: text("hostIP", ANY, report),
                protocol: text("protocol", "TCP", report),
                port: number,
            });
        }
    }
    found
}
