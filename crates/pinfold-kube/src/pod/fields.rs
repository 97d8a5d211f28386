//! The fields of pods and containers in Kubernetes v1.36, to detect misspelt ones.

/// The fields of a pod's `spec`.
#[rustfmt::skip]
pub(super) const POD_SPEC: &[&str] = &[
    "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy",
    "terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy", "nodeSelector",
    "serviceAccountName", "serviceAccount", "automountServiceAccountToken", "nodeName", "hostNetwork",
    "hostPID", "hostIPC", "shareProcessNamespace", "securityContext", "imagePullSecrets", "hostname",
    "subdomain", "affinity", "schedulerName", "tolerations", "hostAliases", "priorityClassName",
    "priority", "dnsConfig", "readinessGates", "runtimeClassName", "enableServiceLinks",
    "preemptionPolicy", "overhead", "topologySpreadConstraints", "setHostnameAsFQDN", "os", "hostUsers",
    "schedulingGates", "resourceClaims", "resources", "hostnameOverride", "workloadRef",
    "schedulingGroup",
];

/// The fields of a container.
#[rustfmt::skip]
pub(super) const CONTAINER: &[&str] = &[
    "name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources",
    "resizePolicy", "restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices",
    "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "terminationMessagePath",
    "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin", "stdinOnce", "tty",
];

/// The fields of a `resources` section.
#[rustfmt::skip]
pub(super) const RESOURCES: &[&str] = &["limits", "requests", "claims"];
