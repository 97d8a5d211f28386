//! The metrics and health endpoints.

use std::io::Write;
use std::net::TcpStream;

use super::routes::pod;
use super::server::{CONNECTIONS, serve};

#[test]
fn an_agent_that_waits_for_the_runtime_is_healthy_but_not_ready() {
    let server = serve();
    assert_eq!(server.probe("GET", "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(server.probe("GET", "/readyz"), (200, "ok\n".to_owned()));
    let problem = "the runtime is not connected".to_owned();
    server
        .agent
        .not_ready
        .lock()
        .expect("unpoisoned")
        .push(problem);
    assert_eq!(server.probe("GET", "/healthz").0, 200);
    let (status, answer) = server.probe("GET", "/readyz");
    assert_eq!(
        (status, answer.as_str()),
        (503, "the runtime is not connected\n")
    );
}

#[test]
fn gauges_are_measured_at_every_scrape() {
    let server = serve();
    assert_eq!(server.ask("POST", "/v1/pods", &pod("web", 4)).0, 201);
    let (status, text) = server.probe("GET", "/metrics");
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
fn the_tcp_port_serves_only_metrics_and_health() {
    let server = serve();
    for (method, path, expected) in [
        ("GET", "/v1/pods", 404),
        ("GET", "/", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
    ] {
        assert_eq!(server.probe(method, path).0, expected, "{method} {path}");
    }
}

#[test]
fn idle_and_slow_clients_cannot_keep_probes_out() {
    let server = serve();
    let mut open = Vec::new();
    for _ in 0..3 * CONNECTIONS {
        let mut client = TcpStream::connect(server.address).expect("a listener");
        client
            .write_all(b"GET /metrics HTTP/1.1\r\nHo")
            .expect("sent");
        open.push(client);
        assert_eq!(server.probe("GET", "/healthz").0, 200);
    }
}
