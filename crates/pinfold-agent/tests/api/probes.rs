//! What Prometheus and probes get.

use crate::routes::pod;
use crate::wire::serve;

#[test]
fn an_agent_that_waits_lives_but_is_not_ready() {
    let served = serve();
    assert_eq!(served.probe("GET", "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(served.probe("GET", "/readyz"), (200, "ok\n".to_owned()));
    let problem = "the runtime is not connected".to_owned();
    served
        .desk
        .waiting
        .lock()
        .expect("unpoisoned")
        .push(problem);
    assert_eq!(served.probe("GET", "/healthz").0, 200);
    let (status, told) = served.probe("GET", "/readyz");
    assert_eq!(
        (status, told.as_str()),
        (503, "the runtime is not connected\n")
    );
}

#[test]
fn metrics_are_measured_when_they_are_asked_for() {
    let served = serve();
    assert_eq!(served.ask("POST", "/v1/pods", &pod("web", 4)).0, 201);
    let (status, text) = served.probe("GET", "/metrics");
    assert_eq!(status, 200);
    for line in [
        "pinfold_pods 1",
        "kubelet_cpu_manager_exclusive_cpu_allocation_count 4",
        "pinfold_free_cpus{numa_node=\"0\"} 2",
        "pinfold_api_requests_total{code=\"201\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
}

#[test]
fn nothing_else_is_served_to_the_network() {
    let served = serve();
    for (method, path, expected) in [
        ("GET", "/v1/pods", 404),
        ("GET", "/", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
    ] {
        assert_eq!(served.probe(method, path).0, expected, "{method} {path}");
    }
}
