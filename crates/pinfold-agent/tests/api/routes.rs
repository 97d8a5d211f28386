//! Every route: what it answers, and with which status.

use serde_json::json;

use crate::wire::serve;

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
fn a_pod_comes_is_listed_is_enforced_and_leaves() {
    let served = serve();
    let (status, admitted) = served.ask("POST", "/v1/pods", &pod("web", 4));
    assert_eq!(status, 201, "{admitted}");
    assert_eq!(admitted["uid"], "web");
    assert_eq!(admitted["containers"][0]["cpus"], "1-2,9-10");
    assert_eq!(admitted["containers"][0]["ownCpus"], true);
    assert_eq!(admitted["generation"], 1);
    let (status, pods) = served.ask("GET", "/v1/pods", "");
    assert_eq!((status, pods[0]["uid"].as_str()), (200, Some("web")));
    let (status, enforced) = served.ask("POST", "/v1/pods/web/enforce", "{\"pid\": 1}");
    assert_eq!((status, enforced["cpus"].as_str()), (200, Some("1-2,9-10")));
    assert_eq!(served.ask("DELETE", "/v1/pods/web", "").0, 200);
    let (status, gone) = served.ask("DELETE", "/v1/pods/web", "");
    assert_eq!(status, 404, "{gone}");
    assert_eq!(gone["hint"], "GET /v1/pods lists them");
    assert_eq!(served.ask("GET", "/v1/pods", ""), (200, json!([])));
}

#[test]
fn a_rejection_says_why_and_what_would_fit() {
    let served = serve();
    let (status, rejected) = served.ask("POST", "/v1/pods", &pod("wide", 9));
    assert_eq!(status, 409, "{rejected}");
    let lines = rejected["explanation"].as_array().expect("lines");
    let told: Vec<&str> = lines.iter().filter_map(|line| line.as_str()).collect();
    let told = told.join("\n");
    assert!(
        told.contains("NUMA node") && told.contains("would fit"),
        "{told}"
    );
    assert_eq!(served.ask("GET", "/v1/pods", ""), (200, json!([])));
}

#[test]
fn a_pod_that_is_here_already_is_a_conflict() {
    let served = serve();
    assert_eq!(served.ask("POST", "/v1/pods", &pod("web", 1)).0, 201);
    assert_eq!(served.ask("POST", "/v1/pods", &pod("web", 1)).0, 409);
}

#[test]
fn other_rules_are_planned_and_then_applied() {
    let served = serve();
    assert_eq!(served.ask("POST", "/v1/pods", &pod("web", 4)).0, 201);
    let (status, plan) = served.ask("POST", "/v1/settings?dryRun=true", RESTRICTED);
    assert_eq!((status, &plan["applied"]), (200, &json!(false)), "{plan}");
    assert_eq!(plan["pods"][0]["fate"], "stays");
    assert_eq!(
        served.ask("GET", "/v1/status", "").1["policy"],
        "single-numa-node"
    );
    let (status, done) = served.ask("POST", "/v1/settings", RESTRICTED);
    assert_eq!((status, &done["applied"]), (200, &json!(true)), "{done}");
    assert_eq!(
        served.ask("GET", "/v1/status", "").1["policy"],
        "restricted"
    );
}

#[test]
fn the_journal_is_read_from_a_number_on() {
    let served = serve();
    for name in ["a", "b", "c"] {
        assert_eq!(served.ask("POST", "/v1/pods", &pod(name, 1)).0, 201);
    }
    let (status, page) = served.ask("GET", "/v1/journal?after=1", "");
    assert_eq!((status, &page["last"]), (200, &json!(3)));
    let entries = page["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["name"], "default/b");
}

#[test]
fn mistakes_have_the_right_status_and_say_what_to_do() {
    let served = serve();
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
        ("POST", "/v1/pods/a/enforce", "{}", 400),
        ("POST", "/v1/pods/a/enforce", "{\"pid\": 0}", 400),
        ("POST", "/v1/pods/a/enforce", "{\"pid\": -1}", 400),
        (
            "POST",
            "/v1/pods/a/enforce",
            "{\"cgroup\": \"relative\"}",
            400,
        ),
        (
            "POST",
            "/v1/pods/a/enforce",
            "{\"pid\": 1, \"cgroup\": \"/a\"}",
            400,
        ),
        ("POST", "/v1/pods/a/enforce", "{\"pid\": 1}", 404),
        ("POST", "/v1/settings?dryRun=maybe", RESTRICTED, 400),
        ("POST", "/v1/settings?dry=true", RESTRICTED, 400),
        ("POST", "/v1/settings", "kind: Pod", 400),
        ("GET", "/v1/journal?after=-1", "", 400),
        ("GET", "/v1/journal?after=1&after", "", 400),
    ] {
        let (status, told) = served.ask(method, path, body);
        assert_eq!(status, expected, "{method} {path} {body}: {told}");
        assert!(!told["error"].as_str().expect("an error").is_empty());
    }
}
