//! The table of all fields of the configuration, with defaults and descriptions.

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::fields;

/// Every field.
#[rustfmt::skip]
pub const FIELDS: &[ConfigField] = fields! {
    "socket" = "/run/pinfold/scheduler/engine.sock": "unix socket for the plugin of kube-scheduler; its folder is created with mode 0700",
    "metrics.listen" = "127.0.0.1:9466": "address of `/metrics`, `/healthz` and `/readyz`; `none` to serve none of them",
    "kubernetes.kubeconfig" = "inCluster": "a kubeconfig file, or `inCluster` for the service account of the pod",
    "nodes.withoutReport" = "reject": "whether nodes without a report `pass` or `reject` pods with NUMA needs; nodes with the label `pinfold.dev/dialect: unknown` pass",
    "nodes.staleReport" = "reject": "the same for nodes with a stale report, and for nodes without headroom beside their unreported pods",
    "nodes.incompleteReport" = "reject": "the same for nodes whose report does not show how their kubelet would decide",
    "reports.staleAfter" = "60s": "a report that lacks a pod this long after the pod started is stale",
    "reports.countedAfter" = "90s": "a report that lists no pods is taken to count a pod this long after the pod started",
    "reports.bindingTimeout" = "30s": "timeout for an unconfirmed binding",
    "weights.span" = "4": "weight of few NUMA nodes",
    "weights.dialect" = "2": "weight of the score of Koordinator's or Volcano's own rules",
    "weights.utilization" = "2": "weight of the CPU utilization",
    "weights.distance" = "1": "weight of short distances between NUMA nodes",
    "weights.fragmentation" = "2": "weight of unfragmented free CPUs",
    "weights.prefer" = "pack": "whether full nodes (`pack`) or empty nodes (`spread`) get the higher utilization score",
};
