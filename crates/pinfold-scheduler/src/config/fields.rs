//! The table of all fields of the configuration, with defaults and descriptions.

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::fields;

/// Every field.
#[rustfmt::skip]
pub const FIELDS: &[ConfigField] = fields! {
    "listen" = "127.0.0.1:9465": "address of the extender",
    "tls.certificate" = "none": "PEM file with the certificate chain; `none` for plain HTTP",
    "tls.key" = "none": "PEM file with the private key",
    "tls.clientCA" = "none": "PEM file with the client CA: only clients with a certificate of it are served; `none` to serve all clients",
    "metrics.listen" = "127.0.0.1:9466": "address of `/metrics`, `/healthz` and `/readyz`; `none` to serve none of them",
    "kubernetes.kubeconfig" = "inCluster": "a kubeconfig file, or `inCluster` for the service account of the pod",
    "leader.elect" = "true": "whether several extenders run and elect a leader",
    "leader.namespace" = "pinfold-system": "namespace of the lease",
    "leader.name" = "pinfold-scheduler": "name of the lease",
    "leader.identity" = "null": "identity in the lease; the host name by default",
    "nodes.withoutReport" = "pass": "whether nodes without a report `pass` or `reject` pods with NUMA needs",
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
