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
    let held = scene.node.journaled().ledger().exclusive_cpus(&"a".into());
    assert_eq!(held.len(), 2);
    assert_eq!(scene.stop("a"), []);
}

#[test]
fn devices_that_the_kubelet_chose_count_for_pods_that_were_running_before() {
    use pinfold_core::device::{Device, DeviceOffer};
    use pinfold_devices::align;

    let mut scene = Scene::kubelet();
    let text = "spec:\n  containers:\n  - name: main\n    resources:\n      \
        limits: {cpu: 2, memory: 10Mi, vendor.com/gpu: 1}\n";
    let pod = specification("g", text);
    let home = sandbox("g", &pod);
    let device = Device {
        numa: Some(vec![1]),
        healthy: true,
    };
    let offer: DeviceOffer = [("gpu7".into(), device)].into();
    let given = [("main".into(), [("vendor.com/gpu".into(), offer)].into())].into();
    let beside = [("g".into(), align::align_pod(&pod.pod, &given))].into();
    let guest = Guest::new("g-main".to_owned(), &home, "main".into());
    let pods = vec![(home, Some(Arc::new(pod)))];
    let met = scene
        .node
        .synchronize_beside(pods, vec![guest], beside, NOW);
    let (_, remarks) = met.expect("written");
    assert_eq!(remarks, [Remark::Adopted("g".into())]);
    // Node 1 has CPUs 4-7 and 12-15.
    assert_eq!(scene.told("g-main"), "4,12");
    let met = scene
        .node
        .synchronize_beside(Vec::new(), Vec::new(), BTreeMap::new(), NOW);
    assert_eq!(met.expect("written").1, [Remark::Gone("g".into())]);
    let pool = scene.node.journaled().ledger().state().pool();
    assert_eq!(pool.resources().count(), 0, "its devices are gone with it");
}
