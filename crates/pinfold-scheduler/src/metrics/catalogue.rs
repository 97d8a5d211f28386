//! Every metric of the extender.

use super::MetricKind;

const COUNTER: MetricKind = MetricKind::Counter;
const GAUGE: MetricKind = MetricKind::Gauge;
/// Answers are a matter of milliseconds.
const SECONDS: MetricKind = MetricKind::Histogram(&[
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
    5.0,
]);

pinfold_daemon::catalogue! {
    /// How long answers take.
    REQUESTS: SECONDS, "pinfold_extender_request_seconds" ["verb"],
        "Time to answer kube-scheduler, by verb: filter, prioritize, preempt, bind.";
    /// Requests that made no sense.
    BAD_REQUESTS: COUNTER, "pinfold_extender_bad_requests_total" ["verb"],
        "Requests that made no sense, by verb.";
    /// Rejections.
    REFUSALS: COUNTER, "pinfold_extender_rejections_total" ["reason"],
        "Nodes that filter rejected to pods, by reason.";
    /// Bindings.
    BINDINGS: COUNTER, "pinfold_extender_bindings_total" ["result"],
        "Bindings by what came of them: bound, or why not.";
    /// Nodes.
    NODES: GAUGE, "pinfold_cluster_nodes" ["kind", "report"],
        "Nodes by whose rules decide there and by their report: fresh, behind, missing.";
    /// Pods.
    PODS: GAUGE, "pinfold_cluster_pods" ["state"],
        "Pods that are not over: bound, waiting.";
    /// Pods that should not be where they are.
    MISFITS: GAUGE, "pinfold_cluster_misfits" [],
        "Pods on nodes that should have rejected them, as far as their reports tell.";
    /// Reservations.
    RESERVATIONS: GAUGE, "pinfold_reservations" ["state"],
        "Pods that were promised a place: binding, or bound and not yet heard of.";
    /// Lag.
    OLDEST_RESERVATION: GAUGE, "pinfold_oldest_reservation_seconds" [],
        "Age of the oldest promise that the API server's news do not show yet: how far the cache is behind.";
    /// Lists.
    LISTS: COUNTER, "pinfold_lists_total" ["resource"],
        "Times that all objects of a kind were listed.";
    /// Watches.
    WATCHES: COUNTER, "pinfold_watches_total" ["resource"],
        "Watches that were begun.";
    /// News.
    WATCH_EVENTS: COUNTER, "pinfold_watch_events_total" ["resource"],
        "News from the API server, by kind of object.";
    /// Failures.
    WATCH_FAILURES: COUNTER, "pinfold_watch_failures_total" ["resource"],
        "Times that news did not come in, by kind of object.";
    /// Objects that make no sense, and other troubles.
    PROBLEMS: COUNTER, "pinfold_problems_total" ["event"],
        "Troubles that were logged, by event: objects that make no sense, reports that are behind, reservations that timed out.";
    /// Pods that were woken.
    WOKEN: COUNTER, "pinfold_woken_pods_total" [],
        "Waiting pods that kube-scheduler was made to look at again because a place for them came free.";
    /// Leadership.
    LEADER: GAUGE, "pinfold_leader" [],
        "1 if this one answers, 0 if another one does.";
    /// What runs.
    BUILD_INFO: GAUGE, "pinfold_build_info" ["version"],
        "1, with the version of the extender.";
}
