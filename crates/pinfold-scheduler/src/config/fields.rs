//! The fields of the configuration as a table: names, defaults, and what each is for.

use pinfold_daemon::config::ConfigField;
use pinfold_daemon::fields;

/// Every field.
#[rustfmt::skip]
pub const FIELDS: &[ConfigField] = fields! {
    "listen" = "127.0.0.1:9465": "the address of the extender",
    "tls.certificate" = "none": "a PEM file with the extender's certificate and those that vouch for it; `none` for plain HTTP",
    "tls.key" = "none": "a PEM file with the key of that certificate",
    "tls.clientAuthority" = "none": "a PEM file with who vouches for clients: only those with such a certificate are answered. `none` lets everybody ask",
    "metrics.listen" = "127.0.0.1:9466": "the address of `/metrics`, `/healthz` and `/readyz`; `none` if nobody is listened to",
    "kubernetes.kubeconfig" = "inCluster": "how the API server is reached: a kubeconfig file, or `inCluster`",
    "leader.elect" = "true": "whether several extenders run, of which one answers at a time",
    "leader.namespace" = "pinfold-system": "the namespace of the lease",
    "leader.name" = "pinfold-scheduler": "the name of the lease",
    "leader.identity" = "null": "who this one is among them; without one the name of the host",
    "nodes.withoutReport" = "pass": "what is said to pods with NUMA needs about nodes that report nothing: `pass` or `reject`",
    "nodes.behind" = "reject": "the same about nodes whose report lacks pods that have run for `reports.confirmWithin`, and about nodes whose promise would not be firm",
    "nodes.uncertain" = "reject": "the same about nodes whose report leaves open how their kubelet would decide",
    "reports.confirmWithin" = "60s": "how long after the start of a pod the report of its node may lack it",
    "reports.settle" = "90s": "how long after the start of a pod a report that lists no pods is taken to count it",
    "reports.reservation" = "30s": "how long a binding is waited for that nobody has heard of",
    "weights.span" = "4": "how much it counts that a pod's resources lie on few NUMA nodes",
    "weights.dialect" = "2": "how much the score of Koordinator's or Volcano's own rules counts",
    "weights.use" = "2": "how much it counts how full the node is",
    "weights.distance" = "1": "how much it counts that the NUMA nodes are close to each other",
    "weights.fragmentation" = "2": "how much it counts that what is left is in one piece",
    "weights.prefer" = "pack": "whether full nodes are good (`pack`) or empty ones (`spread`)",
};
