//! Reports that the API server does not know any more.

use crate::cluster::{Extender, eventually, objects, pod};

/// How often reports were listed so far.
fn listed(extender: &Extender) -> usize {
    let asked = extender.api.asked().into_iter();
    let lists = asked.filter(|asked| {
        asked.path.ends_with("v1alpha2/noderesourcetopologies") && !asked.query.contains("watch=1")
    });
    lists.count()
}

#[test]
fn a_server_that_starts_without_its_kinds_does_not_make_nodes_take_everything() {
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
    // Twice they are not found.
    eventually("reports were asked for again", || listed(&extender) >= 3);
    assert!(
        !passes() || listed(&extender) > 3,
        "one miss proves nothing"
    );
    // What was removed from the cluster for good is forgotten.
    eventually("nothing is known of NUMA nodes", passes);
    assert!(listed(&extender) >= 4);
}
