//! The table of the agent's metrics.

use super::MetricKind;

const COUNTER: MetricKind = MetricKind::Counter;
const GAUGE: MetricKind = MetricKind::Gauge;
/// The kubelet's buckets of its admission metric, in milliseconds.
const MILLISECONDS: MetricKind = MetricKind::Histogram(&[
    0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2,
]);
/// Prometheus' default buckets, in seconds.
const SECONDS: MetricKind = MetricKind::Histogram(&[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);
/// Buckets for decisions, which take microseconds; in seconds.
const FINE_SECONDS: MetricKind = MetricKind::Histogram(&[
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1,
    1.0,
]);

/// Buckets for NRI events, in seconds: the runtime drops a plugin that takes longer than two seconds.
const EVENT_SECONDS: MetricKind = MetricKind::Histogram(&[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0,
]);

pinfold_daemon::catalogue! {
    /// Pod admissions that aligned resources.
    ADMISSION_REQUESTS: COUNTER, "kubelet_topology_manager_admission_requests_total" [],
        "Admission requests of pods whose resources have to be aligned.";
    /// Rejected pod admissions.
    ADMISSION_ERRORS: COUNTER, "kubelet_topology_manager_admission_errors_total" [],
        "Admission requests that were rejected because resources could not be aligned.";
    /// Duration of a pod admission.
    ADMISSION_DURATION: MILLISECONDS, "kubelet_topology_manager_admission_duration_ms" [],
        "Duration of an admission request, in milliseconds.";
    /// Containers that request exclusive CPUs.
    CPU_REQUESTS: COUNTER, "kubelet_cpu_manager_pinning_requests_total" [],
        "Containers that requested exclusive CPUs.";
    /// Containers that were not given the exclusive CPUs they request.
    CPU_ERRORS: COUNTER, "kubelet_cpu_manager_pinning_errors_total" [],
        "Containers that requested exclusive CPUs and were rejected.";
    /// Size of the shared pool.
    SHARED_POOL: GAUGE, "kubelet_cpu_manager_shared_pool_size_millicores" [],
        "Size of the shared CPU pool, in millicores.";
    /// Number of exclusive CPUs.
    EXCLUSIVE_CPUS: GAUGE, "kubelet_cpu_manager_exclusive_cpu_allocation_count" [],
        "CPUs that are assigned exclusively to containers.";
    /// Number of exclusive CPUs per NUMA node.
    EXCLUSIVE_CPUS_PER_NUMA: GAUGE, "kubelet_cpu_manager_allocation_per_numa" ["numa_node"],
        "CPUs that are assigned exclusively to containers, by NUMA node.";
    /// Containers whose resources are aligned.
    ALIGNED: COUNTER, "kubelet_container_aligned_compute_resources_count" ["scope", "boundary"],
        "Containers with aligned resources, by scope of the alignment and its boundary.";
    /// Containers whose resources could not be aligned.
    NOT_ALIGNED: COUNTER, "kubelet_container_aligned_compute_resources_failure_count" ["scope", "boundary"],
        "Containers whose resources could not be aligned, by scope of the alignment and its boundary.";
    /// Containers whose memory is pinned to NUMA nodes.
    MEMORY_REQUESTS: COUNTER, "kubelet_memory_manager_pinning_requests_total" [],
        "Containers whose memory has to be pinned to NUMA nodes.";
    /// Containers whose memory could not be pinned.
    MEMORY_ERRORS: COUNTER, "kubelet_memory_manager_pinning_errors_total" [],
        "Containers whose memory could not be pinned to NUMA nodes.";
    /// Registrations of device plugins.
    PLUGIN_REGISTRATIONS: COUNTER, "kubelet_device_plugin_registration_total" ["resource_name"],
        "Registrations of device plugins, by resource.";
    /// Duration of a device plugin's `Allocate`.
    PLUGIN_ALLOCATION: SECONDS, "kubelet_device_plugin_alloc_duration_seconds" ["resource_name"],
        "Duration of a device plugin's Allocate call, by resource.";
    /// Requests to the podresources API.
    POD_RESOURCES_TOTAL: COUNTER, "kubelet_pod_resources_endpoint_requests_total" ["server_api_version"],
        "Requests to the podresources API.";
    /// `List` requests to the podresources API.
    POD_RESOURCES_LIST: COUNTER, "kubelet_pod_resources_endpoint_requests_list" ["server_api_version"],
        "List requests to the podresources API.";
    /// `GetAllocatableResources` requests to the podresources API.
    POD_RESOURCES_ALLOCATABLE: COUNTER, "kubelet_pod_resources_endpoint_requests_get_allocatable" ["server_api_version"],
        "GetAllocatableResources requests to the podresources API.";
    /// `Get` requests to the podresources API.
    POD_RESOURCES_GET: COUNTER, "kubelet_pod_resources_endpoint_requests_get" ["server_api_version"],
        "Get requests to the podresources API.";
    /// Failed `List` requests to the podresources API.
    POD_RESOURCES_LIST_ERRORS: COUNTER, "kubelet_pod_resources_endpoint_errors_list" ["server_api_version"],
        "Failed List requests to the podresources API.";
    /// Failed `GetAllocatableResources` requests to the podresources API.
    POD_RESOURCES_ALLOCATABLE_ERRORS: COUNTER, "kubelet_pod_resources_endpoint_errors_get_allocatable" ["server_api_version"],
        "Failed GetAllocatableResources requests to the podresources API.";
    /// Failed `Get` requests to the podresources API.
    POD_RESOURCES_GET_ERRORS: COUNTER, "kubelet_pod_resources_endpoint_errors_get" ["server_api_version"],
        "Failed Get requests to the podresources API.";
    /// Rejected pods and resizes by reason.
    REJECTIONS: COUNTER, "pinfold_rejections_total" ["reason"],
        "Rejected pods, containers and resizes, by reason.";
    /// Duration of a decision.
    DECISION: FINE_SECONDS, "pinfold_decision_duration_seconds" ["verdict"],
        "Duration of deciding and journaling the admission of a pod or container, by verdict.";
    /// Duration of handling a runtime event.
    RUNTIME_EVENT: EVENT_SECONDS, "pinfold_runtime_event_duration_seconds" ["event"],
        "Time from an NRI event to its answer, waits included, by event. The runtime's limit is two seconds.";
    /// Number of pods in the ledger.
    PODS: GAUGE, "pinfold_pods" [],
        "Pods in the ledger.";
    /// Free CPUs per NUMA node.
    FREE_CPUS: GAUGE, "pinfold_free_cpus" ["numa_node"],
        "CPUs that can still be assigned exclusively, by NUMA node.";
    /// Memory per NUMA node.
    MEMORY: GAUGE, "pinfold_memory_bytes" ["numa_node", "resource", "state"],
        "Memory and hugepages, by NUMA node, resource and state: reserved, allocated or free.";
    /// Devices per resource.
    DEVICES: GAUGE, "pinfold_devices" ["resource", "state"],
        "Devices, by resource and state: allocated, free or unhealthy.";
    /// Fragmentation of free resources.
    FRAGMENTATION: GAUGE, "pinfold_fragmentation_ratio" ["resource"],
        "Fragmentation of free CPUs and memory across NUMA nodes: 0 if one node can serve the largest possible request, near 1 if free amounts are spread over all nodes.";
    /// Detected drift of control groups.
    DRIFT: COUNTER, "pinfold_cgroup_drift_total" ["cause"],
        "Control groups that were found to differ from the journal, by the probable cause of the change.";
    /// Containers with drift at the last check.
    DRIFTED: GAUGE, "pinfold_drifted_containers" [],
        "Containers whose control group differed from the journal at the last check.";
    /// Containers whose repairs are overwritten.
    CGROUP_CONFLICTS: GAUGE, "pinfold_cgroup_conflicts" [],
        "Containers whose control group another program overwrites after every repair.";
    /// Whether the agent does its job.
    READY: GAUGE, "pinfold_ready" [],
        "1 while the agent does its job, as /readyz, 0 if not.";
    /// Whether the runtime is connected.
    NRI_CONNECTED: GAUGE, "pinfold_nri_connected" [],
        "1 if the container runtime is connected, 0 if not; absent if the agent does not use NRI.";
    /// Connections to the runtime.
    NRI_CONNECTIONS: COUNTER, "pinfold_nri_connections_total" [],
        "Connections to the container runtime since the agent started.";
    /// Size of the journal.
    JOURNAL_BYTES: GAUGE, "pinfold_journal_bytes" [],
        "Size of the journal in bytes.";
    /// Whether the journal cannot be written.
    JOURNAL_WRITE_FAILED: GAUGE, "pinfold_journal_write_failed" [],
        "1 while the journal cannot be written, 0 otherwise.";
    /// Syncs of the journal.
    JOURNAL_SYNCS: COUNTER, "pinfold_journal_syncs_total" [],
        "Times that changes were synced to the journal on disk.";
    /// Journal generation.
    GENERATION: GAUGE, "pinfold_journal_generation" [],
        "Number of the last journal entry.";
    /// Pods that the kubelet pinned.
    KUBELET_PINNED: GAUGE, "pinfold_kubelet_pinned_pods" [],
        "Running pods that the kubelet pinned before the agent took over; 0 when the takeover is done.";
    /// CPUs of best-effort pods.
    BEST_EFFORT_CPUS: GAUGE, "pinfold_best_effort_cpus" [],
        "CPUs that best-effort pods may use now; absent if they are not limited by the load of other pods.";
    /// Writes of published objects.
    PUBLICATIONS: COUNTER, "pinfold_publications_total" ["object", "result"],
        "Writes of published objects to the API server, by object and result.";
    /// Age of a state of the node that is not published.
    REPORT_STALE: GAUGE, "pinfold_report_stale_seconds" [],
        "How long the published objects have lacked the current state of the node; 0 if they have it.";
    /// Requests to the API.
    API_REQUESTS: COUNTER, "pinfold_api_requests_total" ["code"],
        "Requests to the agent's API, by HTTP status code.";
    /// Version of the agent.
    BUILD_INFO: GAUGE, "pinfold_build_info" ["version"],
        "1, labelled with the version of the agent.";
}
