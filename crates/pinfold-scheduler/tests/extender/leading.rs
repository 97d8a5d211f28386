//! Leader election.

use serde_json::json;

use super::cluster::{Extender, objects, pod};

#[test]
fn only_the_holder_of_the_lease_answers_and_releases_it_when_it_stops() {
    let objects = objects(&["a"]);
    objects.lock().unwrap().lease = Some(json!({
        "metadata": { "name": "pinfold-scheduler", "namespace": "pinfold-system", "resourceVersion": "7" },
        "spec": { "holderIdentity": "another extender", "leaseDurationSeconds": 15, "leaseTransitions": 1 },
    }));
    let extender = Extender::start_with(&objects, |config| {
        config.leader.identity = Some("me".to_owned());
    });
    super::cluster::eventually("the extender is not ready", || {
        extender.readiness().1.contains("not the leader")
    });
    let args = json!({ "Pod": pod("p", 1), "NodeNames": ["a"] });
    let (code, answer) = extender.post("/filter", &args);
    assert_eq!(code, 503, "{answer}");
    // The other extender releases the lease.
    objects.lock().unwrap().lease.as_mut().unwrap()["spec"]["holderIdentity"] = "".into();
    extender.eventually_ready();
    assert_eq!(extender.post("/filter", &args).0, 200);
    let held = objects.lock().unwrap().lease.clone().unwrap();
    let holder = held["spec"]["holderIdentity"].as_str().unwrap().to_owned();
    assert!(holder.starts_with("me_"), "{holder}");
    assert_eq!(held["spec"]["leaseTransitions"], 2);
    let renewed = held["spec"]["renewTime"].as_str().unwrap();
    assert_eq!(
        renewed.len(),
        "2026-01-01T00:00:00.000000Z".len(),
        "{renewed}"
    );
    drop(extender);
    let held = objects.lock().unwrap().lease.clone().unwrap();
    assert_eq!(held["spec"]["holderIdentity"], "");
}
