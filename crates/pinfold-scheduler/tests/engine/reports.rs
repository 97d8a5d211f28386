//! Reports that the API server does not serve any more.

use super::cluster::{RunningEngine, eventually, objects, pod};

/// How often reports were listed.
fn listed(engine: &RunningEngine) -> usize {
    let asked = engine.api.asked().into_iter();
    let lists = asked.filter(|asked| {
        asked.path.ends_with("v1alpha2/noderesourcetopologies") && !asked.query.contains("watch=1")
    });
    lists.count()
}

#[test]
fn reports_are_kept_while_a_starting_api_server_does_not_serve_them_yet() {
    let objects = objects(&["a"]);
    objects.lock().unwrap().reports_known = Some(1);
    let engine = RunningEngine::start(&objects);
    let mut scheduler = engine.connected(1);
    // Without its report the node rejects even a pod that fits.
    let mut passes = || !scheduler.fitting(&pod("small", 2)).is_empty();
    assert!(passes());
    // Two lists get 404.
    eventually("reports were listed again", || listed(&engine) >= 3);
    assert!(passes() || listed(&engine) > 3, "kept after the first 404");
    // After the third 404 the reports are gone.
    eventually("the reports are dropped", || !passes());
    assert!(listed(&engine) >= 4);
}
