//! The fields of the configuration as a table: names, defaults, and what each is for.

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::fields;

/// Every field.
#[rustfmt::skip]
pub const FIELDS: &[ConfigField] = fields! {
    "mode" = "manage": "who pins: `manage` (Pinfold) or `mirror` (the kubelet; Pinfold reads and publishes)",
    "node" = "null": "the node's name in the cluster; without one what the variable `NODE_NAME` says, or the name of the host",
    "dialect" = "kubelet": "whose rules decide: `kubelet` or `koordinator`",
    "kubelet.config" = "none": "a KubeletConfiguration with the rules. `none`: in mode `manage` the built-in rules, in mode `mirror` the kubelet's own `config.yaml` below `kubelet.root`",
    "kubelet.root" = "/var/lib/kubelet": "the kubelet's folder, where its state files are",
    "kubelet.endpoint" = "none": "in mode `mirror`: where the kubelet tells the configuration it runs with (`/configz`), such as `https://127.0.0.1:10250`. `none`: only its file is read",
    "kubelet.authority" = "/var/lib/kubelet/pki/kubelet.crt": "the certificate that `kubelet.endpoint` is known by",
    "kubelet.token" = "/var/run/secrets/kubernetes.io/serviceaccount/token": "the token to ask `kubelet.endpoint` with",
    "koordinator.scheduler" = "none": "a KubeSchedulerConfiguration with the defaults of `NodeNUMAResource`, for what this node decides alone in dialect `koordinator`",
    "state" = "/var/lib/pinfold": "the folder of the journal",
    "runtime.nri" = "/var/run/nri/nri.sock": "the container runtime's NRI socket; `none` if there is no runtime and control groups are all there is",
    "runtime.index" = "\"10\"": "when the plugin is called among others: two digits, the lowest first",
    "runtime.niceness" = "-15": "how much the kernel favours the agent, for which the runtime waits with every container, over what else runs on the node: from -20 (most) to 19. Takes CAP_SYS_NICE; without it the agent runs as it was started",
    "cgroups.direct" = "auto": "whether control groups are written directly: `auto` (where the runtime has not done it), `always` or `never`",
    "cgroups.migrateMemory" = "true": "whether memory moves along when a container gets other NUMA nodes",
    "cgroups.partitions" = "none": "whether CPUs of a container's own become a cpuset partition, which keeps every other process off them: `none`, `root` or `isolated`. Takes cgroup v2, Linux 6.7 and CAP_SYS_ADMIN",
    "cgroups.checkEvery" = "10s": "how often control groups are compared with the journal",
    "devices.manage" = "false": "whether device plugins register with the agent instead of the kubelet",
    "devices.directory" = "/var/lib/kubelet/device-plugins": "where device plugins and the registration socket are",
    "podResources.serve" = "/run/pinfold/pod-resources.sock": "where the agent serves the podresources API; `none` if not",
    "podResources.kubelet" = "/var/lib/kubelet/pod-resources/kubelet.sock": "where the kubelet serves its own",
    "api.socket" = "/run/pinfold/agent.sock": "where the agent serves its API; `none` if not",
    "metrics.listen" = "127.0.0.1:9464": "the address of `/metrics`, `/healthz` and `/readyz`; `none` if nobody is listened to",
    "kubernetes.kubeconfig" = "none": "how the API server is reached: a kubeconfig file, `inCluster`, or `none`",
    "kubernetes.publish" = "[v1alpha2, v1alpha1, numatopology]": "the objects in which the node reports itself: NodeResourceTopology of two versions, Volcano's Numatopology",
    "kubernetes.every" = "3s": "how often objects are written at most",
    "unknownContainers" = "adopt": "what becomes of running containers that nobody knows: `adopt` them as if they came now (who would be rejected shares CPUs), or `reject` them all and leave them the shared CPUs",
    "takeover.disableQueryKubeletConfig" = "false": "koordlet's flag `disable-query-kubelet-config`: report neither the kubelet's policy nor the pods it pinned",
    "takeover.cpuSetAllocator" = "true": "koordlet's feature `CPUSetAllocator`: tell containers what they may use. `false`: somebody else pins; nobody is rejected or touched",
};
