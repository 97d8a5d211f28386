//! Reports that the API server does not serve any more.

use super::cluster::{Extender, eventually, objects, pod};

/// How often reports were listed.
fn listed(extender: &Extender) -> usize {
    let asked = extender.api.asked().into_iter();
    let lists = asked.filter(|asked| {
        asked.path.ends_with("v1alpha2/noderesourcetopologies") && !asked.query.contains("watch=1")
    });
    lists.count()
}

#[test]
fn reports_are_kept_while_a_starting_api_server_does_not_serve_them_yet() {
    let objects = objects(&["a"]);
    objects.lock().unwrap().reports_known = Some(1);
    let extender = Extender::start(&objects).ready();
    let passes = || {
        let answer = extender.filter(&pod("large", 5), &["a"]);
        answer["NodeNames"]
            .as_array()
            .is_some_and(|names| !names.is_empty())
    };
    assert!(!passes(), "no NUMA node has five CPUs");
    // Two lists get 404.
    eventually("reports were listed again", || listed(&extender) >= 3);
    assert!(
        !passes() || listed(&extender) > 3,
        "kept after the first 404"
    );
    // After the third 404 the reports are gone.
    eventually("the reports are dropped", passes);
    assert!(listed(&extender) >= 4);
}
