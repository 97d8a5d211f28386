//! [`AgentConfig`]: the agent's configuration, read from one YAML file.
//!
//! Every field has a default, listed in [`FIELDS`], so an empty file is valid. UnknownContainerPolicy fields are rejected with their
//! line and the most similar valid name. A configuration that is serialized reads back unchanged.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_daemon::config::write;
use pinfold_kube::diagnostic::{Diagnostics, WithWarnings};
use pinfold_kube::manifest;
use pinfold_kube::pod_fingerprint::FingerprintMethod;
use serde::Serialize;

mod field_table;
mod read;

use crate::kubernetes::{OtherWriterPolicy, Taint};

pub use field_table::FIELDS;
pub use pinfold_daemon::config::{Access, ConfigField};

/// The configuration of the node agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// Whether the agent or the kubelet assigns and pins CPUs.
    pub mode: Mode,
    /// Name of the Node object; `None` for the environment variable `NODE_NAME`, else the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The decision rules: the kubelet's or Koordinator's.
    pub dialect: NodeDialect,
    /// The KubeletConfiguration, and the kubelet's files and endpoint.
    pub kubelet: KubeletConfig,
    /// Settings of Koordinator's rules.
    pub koordinator: KoordinatorConfig,
    /// Folder of the journal.
    pub state_directory: PathBuf,
    /// The container runtime.
    pub runtime: RuntimeConfig,
    /// Writing and checking control groups.
    pub cgroups: CgroupsConfig,
    /// Device plugins.
    pub devices: DevicesConfig,
    /// The podresources API.
    pub pod_resources: PodResourcesConfig,
    /// The agent's API.
    pub api: ApiConfig,
    /// Metrics and health probes.
    pub metrics: MetricsConfig,
    /// The API server.
    pub kubernetes: KubernetesConfig,
    /// What to do with running containers that are not in the journal.
    pub unknown_containers: UnknownContainerPolicy,
    /// Koordlet's functions that the agent takes over.
    pub takeover: TakeoverConfig,
}

/// Whether the agent or the kubelet assigns and pins CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The agent assigns and pins; the kubelet's CPU and memory manager policies are `none`.
    #[default]
    Manage,
    /// The kubelet assigns and pins; the agent reads the kubelet's state and publishes it.
    Mirror,
}

/// The rules by which the agent assigns resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeDialect {
    /// The rules of the kubelet's topology, CPU, memory and device managers.
    #[default]
    Kubelet,
    /// Koordinator's rules: QoS classes, shared pools, and its scheduler's pod annotations.
    Koordinator,
}

/// The KubeletConfiguration, and the kubelet's files and endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfig {
    /// A KubeletConfiguration with policies and reservations; `None` for the built-in settings.
    #[serde(serialize_with = "write::path_or_none")]
    pub config_file: Option<PathBuf>,
    /// The kubelet's root directory, which has its state files.
    pub root_directory: PathBuf,
    /// URL of the kubelet's server, for `/configz`; `None` if only the file is read.
    #[serde(serialize_with = "write::display_or_none")]
    pub endpoint: Option<String>,
    /// The CA certificate that verifies the endpoint.
    pub ca_file: PathBuf,
    /// File of the bearer token for the endpoint.
    pub token_file: PathBuf,
}

/// Settings of Koordinator's rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KoordinatorConfig {
    /// A KubeSchedulerConfiguration with arguments of `NodeNUMAResource`; `None` for its defaults.
    #[serde(serialize_with = "write::path_or_none")]
    pub scheduler_config_file: Option<PathBuf>,
    /// Whether best-effort pods have fewer CPUs while other pods are busy.
    pub suppression: bool,
    /// Percentage of the node's CPUs that all pods together should use at most.
    pub suppression_threshold: u32,
}

/// The container runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeConfig {
    /// The runtime's NRI socket; `None` to find containers by their control groups instead.
    #[serde(serialize_with = "write::path_or_none")]
    pub nri_socket: Option<PathBuf>,
    /// NRI plugin index, which orders plugins: two digits.
    pub plugin_index: String,
    /// Nice value of the agent: from -20, the highest priority, to 19.
    pub niceness: i8,
}

/// Writing and checking control groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CgroupsConfig {
    /// Whether the agent writes control groups itself instead of sending container updates to the runtime.
    pub direct_writes: DirectWrites,
    /// Socket of the D-Bus system bus, over which systemd gets the properties of its units; `None` to write all control
    /// groups directly.
    #[serde(serialize_with = "write::path_or_none")]
    pub systemd_bus: Option<PathBuf>,
    /// Whether a container's memory is migrated when it is pinned to other NUMA nodes.
    pub migrate_memory: bool,
    /// Whether exclusive CPUs become a cpuset partition, which no other process can use.
    pub partitions: PartitionKind,
    /// Interval of comparing control groups with the journal.
    #[serde(serialize_with = "write::duration")]
    pub check_interval: Duration,
}

/// Whether the agent writes control groups itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectWrites {
    /// Only where the runtime cannot apply an update, or has not applied it.
    #[default]
    Auto,
    /// After every container update.
    Always,
    /// Never: drift is only reported.
    Never,
}

/// The kind of cpuset partition that exclusive CPUs become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionKind {
    /// No partition.
    #[default]
    None,
    /// A partition `root`: its own scheduling domain.
    Root,
    /// A partition `isolated`: without load balancing.
    Isolated,
}

/// Device plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DevicesConfig {
    /// Whether device plugins register with the agent, on a node without a kubelet.
    pub manage_plugins: bool,
    /// Directory of the plugins' sockets and the registration socket.
    pub plugin_directory: PathBuf,
}

/// The podresources API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodResourcesConfig {
    /// Socket on which the agent serves it; `None` to not serve it.
    #[serde(serialize_with = "write::path_or_none")]
    pub socket: Option<PathBuf>,
    /// Socket on which the kubelet serves it.
    pub kubelet_socket: PathBuf,
}

/// The agent's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiConfig {
    /// Socket of the API; `None` to not serve it.
    #[serde(serialize_with = "write::path_or_none")]
    pub socket: Option<PathBuf>,
}

/// Metrics and health probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricsConfig {
    /// The address to listen on; `None` to not listen.
    #[serde(serialize_with = "write::display_or_none")]
    pub listen: Option<SocketAddr>,
}

/// Access to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesConfig {
    /// A kubeconfig, in-cluster credentials, or no API server.
    #[serde(serialize_with = "write::display")]
    pub kubeconfig: Access,
    /// The objects that the agent publishes.
    pub publish: Vec<PublishedObject>,
    /// Shortest interval between two writes of an object.
    #[serde(serialize_with = "write::duration")]
    pub publish_interval: Duration,
    /// What the agent does if another program writes an object that it publishes.
    pub other_writers: OtherWriterPolicy,
    /// Which pods the fingerprint of a NodeResourceTopology covers.
    pub fingerprint_method: FingerprintMethod,
    /// Whether the agent keeps the condition `PinfoldReady` of its Node.
    pub node_condition: bool,
    /// The taint that the agent removes from its Node when it is ready.
    #[serde(serialize_with = "write::display_or_none")]
    pub startup_taint: Option<Taint>,
}

/// An object that the agent publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PublishedObject {
    /// NodeResourceTopology, version `v1alpha2`.
    V1alpha2,
    /// NodeResourceTopology, version `v1alpha1`, with Koordinator's annotations.
    V1alpha1,
    /// Volcano's Numatopology.
    Numatopology,
}

/// What to do with running containers that are not in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownContainerPolicy {
    /// Admit their pods as if they were new. A container whose pod is rejected gets the shared pool.
    #[default]
    Adopt,
    /// Do not admit their pods: log them, and give their containers the shared pool.
    Reject,
}

/// Koordlet's functions that the agent takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TakeoverConfig {
    /// Koordlet's flag `disable-query-kubelet-config`: publish neither the kubelet's CPU policy nor the pods it pinned.
    pub disable_query_kubelet_config: bool,
    /// Koordlet's feature `CPUSetAllocator`: pin containers to their CPUs.
    pub cpu_set_allocator: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            node_name: None,
            dialect: NodeDialect::default(),
            kubelet: KubeletConfig {
                config_file: None,
                root_directory: "/var/lib/kubelet".into(),
                endpoint: None,
                ca_file: "/var/lib/kubelet/pki/kubelet.crt".into(),
                token_file: "/var/run/secrets/kubernetes.io/serviceaccount/token".into(),
            },
            koordinator: KoordinatorConfig {
                scheduler_config_file: None,
                suppression: true,
                suppression_threshold: 65,
            },
            state_directory: "/var/lib/pinfold".into(),
            runtime: RuntimeConfig {
                nri_socket: Some("/var/run/nri/nri.sock".into()),
                plugin_index: "10".to_owned(),
                niceness: -15,
            },
            cgroups: CgroupsConfig {
                direct_writes: DirectWrites::default(),
                systemd_bus: Some("/run/dbus/system_bus_socket".into()),
                migrate_memory: true,
                partitions: PartitionKind::default(),
                check_interval: Duration::from_secs(10),
            },
            devices: DevicesConfig {
                manage_plugins: false,
                plugin_directory: "/var/lib/kubelet/device-plugins".into(),
            },
            pod_resources: PodResourcesConfig {
                socket: Some("/run/pinfold/pod-resources.sock".into()),
                kubelet_socket: "/var/lib/kubelet/pod-resources/kubelet.sock".into(),
            },
            api: ApiConfig {
                socket: Some(pinfold_agent_api::SOCKET.into()),
            },
            metrics: MetricsConfig {
                listen: Some((Ipv4Addr::LOCALHOST, 9464).into()),
            },
            kubernetes: KubernetesConfig {
                kubeconfig: Access::default(),
                publish: vec![
                    PublishedObject::V1alpha2,
                    PublishedObject::V1alpha1,
                    PublishedObject::Numatopology,
                ],
                publish_interval: Duration::from_secs(3),
                other_writers: OtherWriterPolicy::default(),
                fingerprint_method: FingerprintMethod::default(),
                node_condition: false,
                startup_taint: None,
            },
            unknown_containers: UnknownContainerPolicy::default(),
            takeover: TakeoverConfig {
                disable_query_kubelet_config: false,
                cpu_set_allocator: true,
            },
        }
    }
}

impl AgentConfig {
    /// Reads a configuration. `file` is named in error messages.
    ///
    /// # Errors
    /// All errors of the file, each with its line and column.
    pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Self>, Diagnostics> {
        manifest::read_plain(file, bytes, read::config)
    }

    /// Path of the KubeletConfiguration: the configured one, or in mirror mode the kubelet's own `config.yaml`. `None`
    /// for the built-in settings.
    #[must_use]
    pub fn rules_file(&self) -> Option<PathBuf> {
        let own = || self.kubelet.root_directory.join("config.yaml");
        match (&self.kubelet.config_file, self.mode) {
            (Some(named), _) => Some(named.clone()),
            (None, Mode::Mirror) => Some(own()),
            (None, Mode::Manage) => None,
        }
    }

    /// The fields in which `new` differs and that take effect only after a restart.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let differs = |differs: bool, field: &'static str| differs.then_some(field);
        let fields = [
            differs(self.mode != new.mode, "mode"),
            differs(self.node_name != new.node_name, "nodeName"),
            differs(self.dialect != new.dialect, "dialect"),
            differs(
                KubeletConfig {
                    config_file: None,
                    ..self.kubelet.clone()
                } != KubeletConfig {
                    config_file: None,
                    ..new.kubelet.clone()
                },
                "kubelet (all but configFile)",
            ),
            differs(
                self.state_directory != new.state_directory,
                "stateDirectory",
            ),
            differs(self.runtime != new.runtime, "runtime"),
            differs(self.devices != new.devices, "devices"),
            differs(self.pod_resources != new.pod_resources, "podResources"),
            differs(self.api != new.api, "api"),
            differs(self.metrics != new.metrics, "metrics"),
            differs(self.kubernetes != new.kubernetes, "kubernetes"),
            differs(self.takeover != new.takeover, "takeover"),
            differs(
                (self.cgroups.direct_writes == DirectWrites::Never)
                    != (new.cgroups.direct_writes == DirectWrites::Never),
                "cgroups.directWrites",
            ),
            differs(
                self.cgroups.systemd_bus != new.cgroups.systemd_bus,
                "cgroups.systemdBus",
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
