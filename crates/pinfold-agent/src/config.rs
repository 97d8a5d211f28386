//! [`AgentConfig`]: how the agent of a node is set up, read from one YAML file.
//!
//! Every field has a default, listed in [`FIELDS`]; an empty file is a whole configuration. Fields that do not exist
//! are rejected with their place and the name that was probably meant. Written as YAML, a configuration reads back as
//! itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_daemon::config::write;
use pinfold_kube::diagnostic::{Diagnostics, WithWarnings};
use pinfold_kube::manifest;
use serde::Serialize;

mod fields;
mod read;

pub use fields::FIELDS;
pub use pinfold_daemon::config::{Access, ConfigField};

/// How the agent of a node is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// Who pins.
    pub mode: Mode,
    /// The node's name in the cluster; `None` is the name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whose rules decide.
    pub dialect: Dialect,
    /// The rules, and the kubelet's files.
    pub kubelet: KubeletFiles,
    /// Koordinator's configuration.
    pub koordinator: KoordinatorFiles,
    /// The folder of the journal.
    pub state: PathBuf,
    /// The container runtime.
    pub runtime: Runtime,
    /// What is written to control groups.
    pub cgroups: Cgroups,
    /// Device plugins.
    pub devices: Devices,
    /// The podresources API.
    pub pod_resources: PodResources,
    /// The node's own API.
    pub api: Api,
    /// What Prometheus and probes ask.
    pub metrics: Listener,
    /// The cluster.
    pub kubernetes: Kubernetes,
    /// What becomes of containers that run already and that nobody knows.
    pub unknown_containers: Unknown,
    /// Which of koordlet's jobs are taken over.
    pub takeover: Takeover,
}

/// Who pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Pinfold decides and pins; the kubelet's CPU and memory managers are `none`.
    #[default]
    Manage,
    /// The kubelet decides and pins; Pinfold reads and publishes.
    Mirror,
}

/// Whose rules decide on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// The kubelet's managers.
    #[default]
    Kubelet,
    /// Koordinator's: QoS classes, shared pools, and what its scheduler has written on the pod.
    Koordinator,
}

/// The rules, and the kubelet's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletFiles {
    /// A KubeletConfiguration with the rules; `None` for the built-in ones.
    #[serde(serialize_with = "write::path_or_none")]
    pub config: Option<PathBuf>,
    /// The kubelet's folder, where its state files are.
    pub root: PathBuf,
    /// Where the kubelet tells the configuration it runs with; `None` if it is not asked.
    #[serde(serialize_with = "write::display_or_none")]
    pub endpoint: Option<String>,
    /// The certificate that it is known by.
    pub authority: PathBuf,
    /// The token that it is asked with.
    pub token: PathBuf,
}

/// What Koordinator's scheduler is configured with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KoordinatorFiles {
    /// A KubeSchedulerConfiguration; `None` for the defaults.
    #[serde(serialize_with = "write::path_or_none")]
    pub scheduler: Option<PathBuf>,
}

/// The container runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// The runtime's NRI socket; `None` if there is no runtime, and control groups are all there is.
    #[serde(serialize_with = "write::path_or_none")]
    pub nri: Option<PathBuf>,
    /// When the plugin is called among others: two digits.
    pub index: String,
    /// How much the kernel favours the agent over what runs on the node: from -20, most, to 19.
    pub niceness: i8,
}

/// What is written to control groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cgroups {
    /// Whether control groups are written beside what the runtime is asked to do.
    pub direct: Direct,
    /// Whether memory moves along when a container gets other NUMA nodes.
    pub migrate_memory: bool,
    /// Whether CPUs of a container's own are a partition, which keeps every other process off them.
    pub partitions: Partitions,
    /// How often control groups are compared with the journal.
    #[serde(serialize_with = "write::duration")]
    pub check_every: Duration,
}

/// Whether control groups are written directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direct {
    /// Where the runtime cannot do it, or has not.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: differences are only reported.
    Never,
}

/// What kind of cpuset partition exclusive CPUs become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitions {
    /// None.
    #[default]
    None,
    /// A partition of its own.
    Root,
    /// The same without load balancing.
    Isolated,
}

/// Device plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    /// Whether plugins register with the agent instead of the kubelet.
    pub manage: bool,
    /// Where plugins and the registration socket are.
    pub directory: PathBuf,
}

/// The podresources API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodResources {
    /// Where the agent serves it; `None` if it does not.
    #[serde(serialize_with = "write::path_or_none")]
    pub serve: Option<PathBuf>,
    /// Where the kubelet serves it.
    pub kubelet: PathBuf,
}

/// The node's own API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Api {
    /// Its socket; `None` if it is not served.
    #[serde(serialize_with = "write::path_or_none")]
    pub socket: Option<PathBuf>,
}

/// What Prometheus and probes ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The address; `None` if nobody is listened to.
    #[serde(serialize_with = "write::display_or_none")]
    pub listen: Option<SocketAddr>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// How the API server is reached.
    #[serde(serialize_with = "write::display")]
    pub kubeconfig: Access,
    /// The objects in which the node reports itself.
    pub publish: Vec<Publication>,
    /// At most so often.
    #[serde(serialize_with = "write::duration")]
    pub every: Duration,
}

/// An object in which the node reports itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Publication {
    /// NodeResourceTopology, version `v1alpha2`.
    V1alpha2,
    /// NodeResourceTopology, version `v1alpha1`, with Koordinator's annotations.
    V1alpha1,
    /// Volcano's Numatopology.
    Numatopology,
}

/// What becomes of containers that run already and that nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// They are taken into the books with the CPUs they run on, if nobody else holds them.
    #[default]
    Adopt,
    /// They are reported and given the shared CPUs.
    Reject,
}

/// Which of koordlet's jobs are taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    /// Koordlet's flag `disable-query-kubelet-config`: report without asking the kubelet for its configuration.
    pub disable_query_kubelet_config: bool,
    /// Koordlet's feature `CPUSetAllocator`: set the CPUs that its scheduler chose.
    pub cpu_set_allocator: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            node: None,
            dialect: Dialect::default(),
            kubelet: KubeletFiles {
                config: None,
                root: "/var/lib/kubelet".into(),
                endpoint: None,
                authority: "/var/lib/kubelet/pki/kubelet.crt".into(),
                token: "/var/run/secrets/kubernetes.io/serviceaccount/token".into(),
            },
            koordinator: KoordinatorFiles::default(),
            state: "/var/lib/pinfold".into(),
            runtime: Runtime {
                nri: Some("/var/run/nri/nri.sock".into()),
                index: "10".to_owned(),
                niceness: -15,
            },
            cgroups: Cgroups {
                direct: Direct::default(),
                migrate_memory: true,
                partitions: Partitions::default(),
                check_every: Duration::from_secs(10),
            },
            devices: Devices {
                manage: false,
                directory: "/var/lib/kubelet/device-plugins".into(),
            },
            pod_resources: PodResources {
                serve: Some("/run/pinfold/pod-resources.sock".into()),
                kubelet: "/var/lib/kubelet/pod-resources/kubelet.sock".into(),
            },
            api: Api {
                socket: Some(pinfold_agent_api::SOCKET.into()),
            },
            metrics: Listener {
                listen: Some((Ipv4Addr::LOCALHOST, 9464).into()),
            },
            kubernetes: Kubernetes {
                kubeconfig: Access::default(),
                publish: vec![
                    Publication::V1alpha2,
                    Publication::V1alpha1,
                    Publication::Numatopology,
                ],
                every: Duration::from_secs(3),
            },
            unknown_containers: Unknown::default(),
            takeover: Takeover {
                disable_query_kubelet_config: false,
                cpu_set_allocator: true,
            },
        }
    }
}

impl AgentConfig {
    /// Reads a configuration. `file` is its name for messages.
    ///
    /// # Errors
    /// With everything that makes it unusable, each with its place.
    pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Self>, Diagnostics> {
        manifest::read_plain(file, bytes, read::config)
    }

    /// The KubeletConfiguration with the rules: the one that was named, or in mirror mode the kubelet's own. `None` for
    /// the built-in rules.
    #[must_use]
    pub fn rules_file(&self) -> Option<PathBuf> {
        let own = || self.kubelet.root.join("config.yaml");
        match (&self.kubelet.config, self.mode) {
            (Some(named), _) => Some(named.clone()),
            (None, Mode::Mirror) => Some(own()),
            (None, Mode::Manage) => None,
        }
    }

    /// What a running agent cannot change: the names of fields in which `new` differs and that need a restart.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let differs = |differs: bool, field: &'static str| differs.then_some(field);
        let fields = [
            differs(self.mode != new.mode, "mode"),
            differs(self.node != new.node, "node"),
            differs(self.dialect != new.dialect, "dialect"),
            differs(
                KubeletFiles {
                    config: None,
                    ..self.kubelet.clone()
                } != KubeletFiles {
                    config: None,
                    ..new.kubelet.clone()
                },
                "kubelet (all but config)",
            ),
            differs(self.state != new.state, "state"),
            differs(self.runtime != new.runtime, "runtime"),
            differs(self.devices != new.devices, "devices"),
            differs(self.pod_resources != new.pod_resources, "podResources"),
            differs(self.api != new.api, "api"),
            differs(self.metrics != new.metrics, "metrics"),
            differs(self.kubernetes != new.kubernetes, "kubernetes"),
            differs(self.takeover != new.takeover, "takeover"),
            differs(
                (self.cgroups.direct == Direct::Never) != (new.cgroups.direct == Direct::Never),
                "cgroups.direct",
            ),
            differs(
                self.cgroups.partitions != new.cgroups.partitions,
                "cgroups.partitions",
            ),
            differs(self.koordinator != new.koordinator, "koordinator"),
        ];
        fields.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
