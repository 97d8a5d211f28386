//! Nodes that a kubelet ran before, or still does.

use super::*;

#[test]
fn pods_that_the_kubelet_pinned_are_left_alone_until_they_end() {
    let pins = KubeletPins {
        pods: [("old".into(), [("main".into(), set("2,10"))].into())].into(),
    };
    let mut scene = Scene::with(true, pins);
    let old = specification("old", &cpus(2));
    let home = sandbox("old", &old);
    let guest = Guest::new("old-main".to_owned(), &home, "main".into());
    let (updates, remarks) = scene
        .node
        .synchronize(vec![(home, None)], vec![guest], &mut NoPreference, NOW)
        .expect("written");
    assert_eq!(updates, []);
    let cpus_of_old = set("2,10");
    assert_eq!(
        remarks,
        [Remark::Pinned {
            pod: "old".into(),
            cpus: cpus_of_old.clone()
        }]
    );
    assert_eq!(scene.node.kubelet_pinned(), 1);
    let ls = "  labels: {koordinator.sh/qosClass: LS}\nspec: {containers: [{name: main}]}";
    let ls = scene.run("ls", ls).expect("the pool");
    assert_eq!(ls.cpus, &set("0-15") - &cpus_of_old);
    for uid in ["a", "b", "c", "d", "e", "f"] {
        let own = scene.run(uid, &class("LSR", 2)).expect("its own").cpus;
        assert!(own.is_disjoint(&cpus_of_old));
    }
    scene.pod("g", &class("LSR", 2)).expect_err("all are held");
    scene.stop("old");
    assert_eq!(scene.node.kubelet_pinned(), 0);
    scene
        .run("g", &class("LSR", 2))
        .expect("what the kubelet held is ours now");
}

#[test]
fn pods_that_the_kubelet_pinned_come_before_strangers_who_would_get_their_cpus() {
    let pins = KubeletPins {
        pods: [("old".into(), [("main".into(), set("1,9"))].into())].into(),
    };
    let mut scene = Scene::with(false, pins);
    let stranger = specification("stranger", &cpus(2));
    let old = specification("old", &cpus(2));
    let pods = vec![
        (sandbox("stranger", &stranger), Some(Arc::new(stranger))),
        (sandbox("old", &old), Some(Arc::new(old))),
    ];
    let synchronized = scene
        .node
        .synchronize(pods, Vec::new(), &mut NoPreference, NOW);
    let (_, remarks) = synchronized.expect("written");
    let pinned = Remark::Pinned {
        pod: "old".into(),
        cpus: set("1,9"),
    };
    assert_eq!(remarks, [pinned, Remark::Adopted("stranger".into())]);
}

#[test]
fn whoever_keeps_hands_off_decides_and_tells_nobody() {
    let mut scene = Scene::kubelet();
    scene.node = scene.node.hands_off();
    assert_eq!(scene.run("a", &cpus(2)), None);
    assert_eq!(scene.run("b", "spec: {containers: [{name: main}]}"), None);
    let held = scene.node.keeper().ledger().exclusive_cpus(&"a".into());
    assert_eq!(held.len(), 2);
    assert_eq!(scene.stop("a"), []);
}
