//! Every metric of the agent.

use super::MetricKind;

const COUNTER: MetricKind = MetricKind::Counter;
const GAUGE: MetricKind = MetricKind::Gauge;
/// The kubelet's buckets for admission, in milliseconds.
const MILLISECONDS: MetricKind = MetricKind::Histogram(&[
    0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2,
]);
/// The buckets that most programs use, in seconds.
const SECONDS: MetricKind = MetricKind::Histogram(&[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);
/// Decisions are a matter of microseconds.
const QUICK: MetricKind = MetricKind::Histogram(&[
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1,
    1.0,
]);

pinfold_daemon::catalogue! {
    /// Pods that asked to run here.
    ADMISSION_REQUESTS: COUNTER, "kubelet_topology_manager_admission_requests_total" [],
        "Pods whose resources had to be aligned.";
    /// Pods that were turned away.
    ADMISSION_ERRORS: COUNTER, "kubelet_topology_manager_admission_errors_total" [],
        "Pods that were turned away because their resources could not be aligned.";
    /// How long an admission took.
    ADMISSION_DURATION: MILLISECONDS, "kubelet_topology_manager_admission_duration_ms" [],
        "Time to serve an admission, in milliseconds.";
    /// Containers that asked for CPUs of their own.
    CPU_REQUESTS: COUNTER, "kubelet_cpu_manager_pinning_requests_total" [],
        "Containers that asked for CPUs of their own.";
    /// Containers that did not get them.
    CPU_ERRORS: COUNTER, "kubelet_cpu_manager_pinning_errors_total" [],
        "Containers that asked for CPUs of their own and did not get them.";
    /// The size of the shared pool.
    SHARED_POOL: GAUGE, "kubelet_cpu_manager_shared_pool_size_millicores" [],
        "The size of the shared pool of CPUs, in thousandths of a CPU.";
    /// CPUs that belong to containers.
    EXCLUSIVE_CPUS: GAUGE, "kubelet_cpu_manager_exclusive_cpu_allocation_count" [],
        "CPUs that containers have for themselves.";
    /// The same per NUMA node.
    EXCLUSIVE_CPUS_PER_NUMA: GAUGE, "kubelet_cpu_manager_allocation_per_numa" ["numa_node"],
        "CPUs that containers have for themselves, per NUMA node.";
    /// Containers whose resources are aligned.
    ALIGNED: COUNTER, "kubelet_container_aligned_compute_resources_count" ["scope", "boundary"],
        "Containers that got aligned resources, by what was aligned as one and to what.";
    /// Containers whose resources could not be aligned.
    NOT_ALIGNED: COUNTER, "kubelet_container_aligned_compute_resources_failure_count" ["scope", "boundary"],
        "Containers that did not get aligned resources, by what was to be aligned as one and to what.";
    /// Containers that asked for memory of some NUMA nodes.
    MEMORY_REQUESTS: COUNTER, "kubelet_memory_manager_pinning_requests_total" [],
        "Containers whose memory had to come from certain NUMA nodes.";
    /// Containers that did not get it.
    MEMORY_ERRORS: COUNTER, "kubelet_memory_manager_pinning_errors_total" [],
        "Containers whose memory could not come from certain NUMA nodes.";
    /// Registrations of device plugins.
    PLUGIN_REGISTRATIONS: COUNTER, "kubelet_device_plugin_registration_total" ["resource_name"],
        "Registrations of device plugins, by resource.";
    /// How long plugins took to allocate.
    PLUGIN_ALLOCATION: SECONDS, "kubelet_device_plugin_alloc_duration_seconds" ["resource_name"],
        "Time that a device plugin took to allocate, by resource.";
    /// Requests to the podresources API.
    POD_RESOURCES_TOTAL: COUNTER, "kubelet_pod_resources_endpoint_requests_total" ["server_api_version"],
        "Requests to the podresources API.";
    /// Requests to list.
    POD_RESOURCES_LIST: COUNTER, "kubelet_pod_resources_endpoint_requests_list" ["server_api_version"],
        "Requests to the podresources API: List.";
    /// Requests for what can be handed out.
    POD_RESOURCES_ALLOCATABLE: COUNTER, "kubelet_pod_resources_endpoint_requests_get_allocatable" ["server_api_version"],
        "Requests to the podresources API: GetAllocatableResources.";
    /// Requests for one pod.
    POD_RESOURCES_GET: COUNTER, "kubelet_pod_resources_endpoint_requests_get" ["server_api_version"],
        "Requests to the podresources API: Get.";
    /// Failed requests to list.
    POD_RESOURCES_LIST_ERRORS: COUNTER, "kubelet_pod_resources_endpoint_errors_list" ["server_api_version"],
        "Requests to the podresources API that failed: List.";
    /// Failed requests for what can be handed out.
    POD_RESOURCES_ALLOCATABLE_ERRORS: COUNTER, "kubelet_pod_resources_endpoint_errors_get_allocatable" ["server_api_version"],
        "Requests to the podresources API that failed: GetAllocatableResources.";
    /// Failed requests for one pod.
    POD_RESOURCES_GET_ERRORS: COUNTER, "kubelet_pod_resources_endpoint_errors_get" ["server_api_version"],
        "Requests to the podresources API that failed: Get.";
    /// Rejections by reason.
    REFUSALS: COUNTER, "pinfold_rejections_total" ["reason"],
        "Pods that were turned away, by the reason that their status shows.";
    /// How long decisions take.
    DECISION: QUICK, "pinfold_decision_seconds" ["verdict"],
        "Time to decide about a pod or container and to write it down, by what came of it.";
    /// How long runtime events take.
    RUNTIME_EVENT: QUICK, "pinfold_runtime_event_seconds" ["event"],
        "Time to answer the container runtime, by its event.";
    /// Pods on the node.
    PODS: GAUGE, "pinfold_pods" [],
        "Pods in the ledger.";
    /// Free CPUs.
    FREE_CPUS: GAUGE, "pinfold_free_cpus" ["numa_node"],
        "CPUs that a container could still get for itself, per NUMA node.";
    /// Memory per NUMA node.
    MEMORY: GAUGE, "pinfold_memory_bytes" ["numa_node", "resource", "state"],
        "Memory and hugepages per NUMA node: reserved for the system, held by pods, free.";
    /// Free devices.
    DEVICES: GAUGE, "pinfold_devices" ["resource", "state"],
        "Devices by resource: held by pods, free, unhealthy.";
    /// Fragmentation.
    FRAGMENTATION: GAUGE, "pinfold_fragmentation_ratio" ["resource"],
        "How scattered what is free is: 0 if one NUMA node has as much of it as it could, near 1 if all have a little.";
    /// Drift.
    DRIFT: COUNTER, "pinfold_drift_total" ["cause"],
        "Times that a control group was not as the journal says, by who changed it.";
    /// Drift now.
    DRIFTED: GAUGE, "pinfold_drifted_containers" [],
        "Containers whose control group is not as the journal says, at the last check.";
    /// The runtime.
    NRI_CONNECTED: GAUGE, "pinfold_nri_connected" [],
        "1 if the container runtime is connected, 0 if not.";
    /// Connections to the runtime.
    NRI_CONNECTIONS: COUNTER, "pinfold_nri_connections_total" [],
        "Times that the container runtime was connected.";
    /// The journal.
    JOURNAL_BYTES: GAUGE, "pinfold_journal_bytes" [],
        "The size of the journal.";
    /// The last entry.
    GENERATION: GAUGE, "pinfold_generation" [],
        "The number of the last entry in the journal.";
    /// Takeover.
    KUBELET_PINNED: GAUGE, "pinfold_kubelet_pinned_pods" [],
        "Pods that the kubelet pinned before the agent came and that still run; 0 when the agent owns all CPUs.";
    /// Reports to the cluster.
    PUBLICATIONS: COUNTER, "pinfold_publications_total" ["object", "result"],
        "Reports written to the API server, by object and what came of it.";
    /// Requests to the API.
    API_REQUESTS: COUNTER, "pinfold_api_requests_total" ["code"],
        "Requests to the agent's API, by status code.";
    /// What runs.
    BUILD_INFO: GAUGE, "pinfold_build_info" ["version"],
        "1, with the version of the agent.";
}
