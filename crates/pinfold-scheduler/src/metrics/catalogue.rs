//! The table of all metrics of the engine.

use super::MetricKind;

const COUNTER: MetricKind = MetricKind::Counter;
const GAUGE: MetricKind = MetricKind::Gauge;
/// Buckets for durations of calls, which usually take milliseconds.
const SECONDS: MetricKind = MetricKind::Histogram(&[
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
    5.0,
]);

pinfold_daemon::catalogue! {
    /// Duration of calls.
    CALLS: SECONDS, "pinfold_engine_call_seconds" ["call"],
        "Duration of calls of kube-scheduler's plugin: PreFilter, FilterNode, Reserve, Unreserve.";
    /// Calls that failed.
    FAILED_CALLS: COUNTER, "pinfold_engine_failed_calls_total" ["call", "code"],
        "Calls that failed, by gRPC status code.";
    /// Nodes that rejected pods.
    REJECTIONS: COUNTER, "pinfold_engine_rejections_total" ["reason"],
        "Nodes that rejected a pod in PreFilter, by reason.";
    /// Reservations.
    RESERVED_PODS: COUNTER, "pinfold_engine_reserved_pods_total" ["result"],
        "Calls of Reserve by result: reserved, rejected.";
    /// Sessions.
    SESSIONS: COUNTER, "pinfold_engine_sessions_total" [],
        "Sessions of kube-scheduler processes.";
    /// Nodes.
    NODES: GAUGE, "pinfold_cluster_nodes" ["dialect", "report"],
        "Nodes by dialect and by the state of their report: fresh, stale, missing.";
    /// Pods.
    PODS: GAUGE, "pinfold_cluster_pods" ["state"],
        "Pods that have not terminated: bound, pending.";
    /// Pods that do not fit on their node.
    MISPLACED_PODS: GAUGE, "pinfold_cluster_misplaced_pods" [],
        "Pods that are bound to a node that should have rejected them, according to its report.";
    /// Reservations.
    RESERVATIONS: GAUGE, "pinfold_reservations" ["state"],
        "Reserved pods without a watch event of their binding: held, or with an unknown result (unconfirmed).";
    /// Age of the oldest reservation.
    OLDEST_RESERVATION: GAUGE, "pinfold_oldest_reservation_seconds" [],
        "Age of the oldest reservation without a watch event: the delay of the cache.";
    /// Lists.
    LISTS: COUNTER, "pinfold_lists_total" ["resource"],
        "Lists of all objects, by resource.";
    /// Watches.
    WATCHES: COUNTER, "pinfold_watches_total" ["resource"],
        "Watches that were started, by resource.";
    /// Watch events.
    WATCH_EVENTS: COUNTER, "pinfold_watch_events_total" ["resource"],
        "Watch events, by resource.";
    /// Failed lists and watches.
    WATCH_FAILURES: COUNTER, "pinfold_watch_failures_total" ["resource"],
        "Failed lists and watches, by resource.";
    /// Problems of the cache.
    PROBLEMS: COUNTER, "pinfold_cache_problems_total" ["kind"],
        "Problems with objects, by kind: invalid-pod, invalid-node, invalid-report, stale-report, binding-timed-out.";
    /// Requeued pods.
    REQUEUED_PODS: COUNTER, "pinfold_requeued_pods_total" [],
        "Rejected pods that were requeued because a node has room for them now.";
    /// Version.
    BUILD_INFO: GAUGE, "pinfold_build_info" ["version"],
        "1, with the version of the engine.";
}
