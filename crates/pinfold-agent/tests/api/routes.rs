//! The responses and status codes of every route.

use serde_json::json;

use super::server::serve;

pub(crate) fn pod(name: &str, cpus: u32) -> String {
    let resources = json!({"cpu": cpus.to_string(), "memory": "64Mi"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": [{
            "name": "main",
            "resources": {"requests": resources, "limits": resources},
        }]},
    })
    .to_string()
}

const RESTRICTED: &str = "
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: restricted
systemReserved: {cpu: '2'}
";

#[test]
fn a_pod_is_admitted_listed_pinned_and_released() {
    let server = serve();
    let (status, admitted) = server.ask("POST", "/v1/pods", &pod("web", 4));
    assert_eq!(status, 201, "{admitted}");
    assert_eq!(admitted["uid"], "web");
    assert_eq!(admitted["containers"][0]["cpus"], "1-2,9-10");
    assert_eq!(admitted["containers"][0]["exclusiveCpus"], true);
    assert_eq!(admitted["generation"], 1);
    let (status, pods) = server.ask("GET", "/v1/pods", "");
    assert_eq!((status, pods[0]["uid"].as_str()), (200, Some("web")));
    let (status, pinned) = server.ask("POST", "/v1/pods/web/pin", "{\"pid\": 1}");
    assert_eq!((status, pinned["cpus"].as_str()), (200, Some("1-2,9-10")));
    assert_eq!(pinned["method"], "affinity");
    assert_eq!(server.ask("DELETE", "/v1/pods/web", "").0, 200);
    let (status, gone) = server.ask("DELETE", "/v1/pods/web", "");
    assert_eq!(status, 404, "{gone}");
    assert_eq!(gone["hint"], "GET /v1/pods lists them");
    assert_eq!(server.ask("GET", "/v1/pods", ""), (200, json!([])));
}

#[test]
fn a_rejection_says_why_and_what_would_fit() {
    let server = serve();
    let (status, rejected) = server.ask("POST", "/v1/pods", &pod("wide", 9));
    assert_eq!(status, 409, "{rejected}");
    let lines = rejected["explanation"].as_array().expect("lines");
    let answer: Vec<&str> = lines.iter().filter_map(|line| line.as_str()).collect();
    let answer = answer.join("\n");
    assert!(
        answer.contains("NUMA node") && answer.contains("would fit"),
        "{answer}"
    );
    assert_eq!(server.ask("GET", "/v1/pods", ""), (200, json!([])));
}

#[test]
fn admitting_a_pod_twice_is_a_conflict() {
    let server = serve();
    assert_eq!(server.ask("POST", "/v1/pods", &pod("web", 1)).0, 201);
    assert_eq!(server.ask("POST", "/v1/pods", &pod("web", 1)).0, 409);
}

#[test]
fn a_change_of_settings_is_planned_and_then_applied() {
    let server = serve();
    assert_eq!(server.ask("POST", "/v1/pods", &pod("web", 4)).0, 201);
    let (status, plan) = server.ask("POST", "/v1/settings?dryRun=true", RESTRICTED);
    assert_eq!((status, &plan["applied"]), (200, &json!(false)), "{plan}");
    assert_eq!(plan["pods"][0]["outcome"], "unchanged");
    assert_eq!(
        server.ask("GET", "/v1/status", "").1["topologyPolicy"],
        "single-numa-node"
    );
    let (status, done) = server.ask("POST", "/v1/settings", RESTRICTED);
    assert_eq!((status, &done["applied"]), (200, &json!(true)), "{done}");
    assert_eq!(
        server.ask("GET", "/v1/status", "").1["topologyPolicy"],
        "restricted"
    );
}

#[test]
fn the_journal_is_listed_after_a_given_number() {
    let server = serve();
    for name in ["a", "b", "c"] {
        assert_eq!(server.ask("POST", "/v1/pods", &pod(name, 1)).0, 201);
    }
    let (status, page) = server.ask("GET", "/v1/journal?after=1", "");
    assert_eq!((status, &page["lastNumber"]), (200, &json!(3)));
    let entries = page["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["podName"], "default/b");
}

#[test]
fn invalid_requests_have_the_right_status_and_a_message() {
    let server = serve();
    for (method, path, body, expected) in [
        ("GET", "/", "", 404),
        ("GET", "/v2/pods", "", 404),
        ("GET", "/v1/podz", "", 404),
        ("PUT", "/v1/pods", "", 405),
        ("GET", "/v1/settings", "", 405),
        ("POST", "/v1/pods/a", "", 405),
        ("POST", "/v1/pods", "", 400),
        ("POST", "/v1/pods", "kind: Pod\n", 400),
        ("POST", "/v1/pods", "\u{0}\u{1}", 400),
        ("DELETE", "/v1/pods/", "", 400),
        ("DELETE", "/v1/pods/a%zz", "", 400),
        ("DELETE", "/v1/pods/default%2Fa", "", 404),
        ("POST", "/v1/pods/a/pin", "{}", 400),
        ("POST", "/v1/pods/a/pin", "{\"pid\": 0}", 400),
        ("POST", "/v1/pods/a/pin", "{\"pid\": -1}", 400),
        ("POST", "/v1/pods/a/pin", "{\"cgroup\": \"relative\"}", 400),
        (
            "POST",
            "/v1/pods/a/pin",
            "{\"pid\": 1, \"cgroup\": \"/a\"}",
            400,
        ),
        ("POST", "/v1/pods/a/pin", "{\"pid\": 1}", 404),
        ("POST", "/v1/settings?dryRun=maybe", RESTRICTED, 400),
        ("POST", "/v1/settings?dry=true", RESTRICTED, 400),
        ("POST", "/v1/settings", "kind: Pod", 400),
        ("GET", "/v1/journal?after=-1", "", 400),
        ("GET", "/v1/journal?after=1&after", "", 400),
    ] {
        let (status, answer) = server.ask(method, path, body);
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
        assert!(!answer["error"].as_str().expect("an error").is_empty());
    }
}
