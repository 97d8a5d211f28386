//! The table of configuration fields with their defaults and descriptions.

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::fields;

/// All fields of the configuration.
#[rustfmt::skip]
pub const FIELDS: &[ConfigField] = fields! {
    "mode" = "manage": "`manage`: the agent assigns and pins CPUs. `mirror`: the kubelet does; the agent only publishes its state",
    "nodeName" = "null": "name of the Node object; the default is the environment variable `NODE_NAME`, else the host name",
    "dialect" = "kubelet": "rules by which the agent assigns resources: `kubelet` or `koordinator`",
    "kubelet.configFile" = "none": "a KubeletConfiguration with policies and reservations. `none`: in mode `manage` the built-in settings, in mode `mirror` the file `config.yaml` in `kubelet.rootDirectory`",
    "kubelet.rootDirectory" = "/var/lib/kubelet": "the kubelet's root directory, which has its state files",
    "kubelet.endpoint" = "none": "mode `mirror`: URL of the kubelet's server, such as `https://127.0.0.1:10250`, to read its running configuration from `/configz`. `none`: only the file is read",
    "kubelet.caFile" = "/var/lib/kubelet/pki/kubelet.crt": "CA certificate that verifies `kubelet.endpoint`",
    "kubelet.tokenFile" = "/var/run/secrets/kubernetes.io/serviceaccount/token": "file of the bearer token for `kubelet.endpoint`",
    "koordinator.schedulerConfigFile" = "none": "dialect `koordinator`: a KubeSchedulerConfiguration with the arguments of `NodeNUMAResource`, for pods whose CPUs the agent chooses. `none`: its defaults",
    "koordinator.suppression" = "true": "dialect `koordinator`: whether best-effort pods have fewer CPUs while other pods are busy; `off` for their whole pool always",
    "koordinator.suppressionThreshold" = "65": "percentage of the node's CPUs: best-effort pods may use what other pods leave of them, at least a core",
    "stateDirectory" = "/var/lib/pinfold": "directory of the journal",
    "runtime.nriSocket" = "/var/run/nri/nri.sock": "NRI socket of the container runtime. `none`: containers are found by their control groups, and control groups are written directly",
    "runtime.pluginIndex" = "\"10\"": "NRI plugin index: two digits; the runtime calls plugins in this order",
    "runtime.niceness" = "-15": "nice value of the agent, from -20 (highest priority) to 19: the runtime waits for the agent at every container. Needs CAP_SYS_NICE; without it the priority is unchanged",
    "cgroups.directWrites" = "auto": "whether the agent writes control groups itself: `auto` (if the runtime has not applied an update), `always` or `never`",
    "cgroups.systemdBus" = "/run/dbus/system_bus_socket": "socket of the D-Bus system bus: systemd gets changes of slices and scopes there, because it undoes those that it does not know. `none`: all control groups are written directly",
    "cgroups.migrateMemory" = "true": "whether memory is migrated when a container is pinned to other NUMA nodes",
    "cgroups.partitions" = "none": "whether exclusive CPUs become a cpuset partition, which no other process can use: `none`, `root` or `isolated`. Needs cgroup v2, Linux 6.7 and CAP_SYS_ADMIN",
    "cgroups.checkInterval" = "10s": "interval of comparing control groups with the journal",
    "devices.managePlugins" = "false": "whether device plugins register with the agent, on a node without a kubelet. With one, they belong to it, and the agent does not start",
    "devices.pluginDirectory" = "/var/lib/kubelet/device-plugins": "directory of the device plugins' sockets and the registration socket",
    "podResources.socket" = "/run/pinfold/pod-resources.sock": "socket on which the agent serves the podresources API; `none` to not serve it",
    "podResources.kubeletSocket" = "/var/lib/kubelet/pod-resources/kubelet.sock": "socket on which the kubelet serves the podresources API",
    "api.socket" = "/run/pinfold/agent.sock": "socket on which the agent serves its API; `none` to not serve it",
    "metrics.listen" = "127.0.0.1:9464": "address of `/metrics`, `/healthz` and `/readyz`; `none` to not serve them",
    "kubernetes.kubeconfig" = "none": "access to the API server: a kubeconfig file, `inCluster`, or `none`",
    "kubernetes.publish" = "[v1alpha2, v1alpha1, numatopology]": "objects to publish: NodeResourceTopology of two versions, and Volcano's Numatopology",
    "kubernetes.publishInterval" = "3s": "shortest interval between two writes of an object",
    "kubernetes.otherWriters" = "yield": "what the agent does if another program, such as koordlet or NFD, writes an object that it publishes: `yield` leaves the object to it, `repair` writes it again. Both are reported as an event of the Node and by `pinfold status`",
    "kubernetes.fingerprintMethod" = "with-exclusive-resources": "pods in the fingerprint that scheduler-plugins compares: `with-exclusive-resources`, `all`, or `exclude-terminal` for schedulers with `informerMode: Shared`",
    "kubernetes.nodeCondition" = "false": "whether the agent keeps the condition `PinfoldReady` of its Node, which is true while the agent is ready. Needs `deploy/agent/rbac-node-condition.yaml`",
    "kubernetes.startupTaint" = "none": "a taint `KEY:EFFECT` that the agent removes from its Node when it is ready, such as `pinfold.dev/agent-not-ready:NoSchedule`. Needs `deploy/agent/rbac-startup-taint.yaml`",
    "unknownContainers" = "adopt": "what to do with running containers that are not in the journal: `adopt` admits their pods as if they were new (a rejected one gets the shared pool), `reject` gives all of them the shared pool",
    "takeover.disableQueryKubeletConfig" = "false": "koordlet's flag `disable-query-kubelet-config`: publish neither the kubelet's CPU policy nor the pods it pinned",
    "takeover.cpuSetAllocator" = "true": "koordlet's feature `CPUSetAllocator`: pin containers. `false`: another component pins; the agent rejects no pod and changes no container",
};
