//! Nodes on which the kubelet pinned pods before, or still does.

use super::*;

#[test]
fn pods_that_the_kubelet_pinned_keep_their_cpus_until_they_terminate() {
    let pins = KubeletPins {
        pods: [("old".into(), [("main".into(), set("2,10"))].into())].into(),
    };
    let mut scene = Scene::with(true, pins);
    let old = pod_spec("old", &cpus(2));
    let sandbox_of_pod = sandbox("old", &old);
    let container = ManagedContainer::new("old-main".to_owned(), &sandbox_of_pod, "main".into());
    let (updates, changes) = scene.node.synchronize(
        vec![(sandbox_of_pod, None)],
        vec![container],
        &mut NoPreference,
        NOW,
    );
    assert_eq!(updates, []);
    let cpus_of_old = set("2,10");
    assert_eq!(
        changes,
        [SyncChange::KeptKubeletCpus {
            pod: "old".into(),
            cpus: cpus_of_old.clone()
        }]
    );
    assert_eq!(scene.node.kubelet_pinned(), 1);
    let ls = "  labels: {koordinator.sh/qosClass: LS}\nspec: {containers: [{name: main}]}";
    let ls = scene.run("ls", ls).expect("the pool");
    assert_eq!(ls.cpus, &set("0-15") - &cpus_of_old);
    for uid in ["a", "b", "c", "d", "e", "f"] {
        let own = scene
            .run(uid, &class("LSR", 2))
            .expect("exclusive CPUs")
            .cpus;
        assert!(own.is_disjoint(&cpus_of_old));
    }
    scene.pod("g", &class("LSR", 2)).expect_err("all are held");
    scene.stop("old");
    assert_eq!(scene.node.kubelet_pinned(), 0);
    scene
        .run("g", &class("LSR", 2))
        .expect("the CPUs of the terminated pod");
}

/// Of pods without a class of Koordinator's.
#[test]
fn a_guaranteed_pod_keeps_cpus_that_a_kubelet_pinned_and_shares_the_pool_otherwise() {
    let pins = KubeletPins {
        pods: [("static".into(), [("main".into(), set("2,10"))].into())].into(),
    };
    let mut scene = Scene::with(true, pins);
    let running = ["static", "none"].map(|uid| {
        let pod = pod_spec(uid, &cpus(2));
        let sandbox = sandbox(uid, &pod);
        let container = ManagedContainer::new(format!("{uid}-main"), &sandbox, "main".into());
        ((sandbox, Some(Arc::new(pod))), container)
    });
    let (pods, containers) = running.into_iter().unzip();
    let synchronized = scene
        .node
        .synchronize(pods, containers, &mut NoPreference, NOW);
    drop(synchronized);
    let shared = &set("0-15") - &set("2,10");
    // The kubelet's own CPUs are not touched.
    assert_eq!(scene.sent_cpus("static-main"), "");
    let best_effort = scene.node.best_effort().expect("pools");
    assert_eq!(best_effort.pool, shared, "no pool has them");
    // One that ran under a kubelet without CPU manager, and a new one, are like LS pods.
    assert_eq!(scene.sent_cpus("none-main"), shared.to_string());
    let new = scene.run("new", &cpus(2)).expect("the pool");
    assert_eq!((new.cpus, new.quota), (shared, Quota::AsSpecified));
}

#[test]
fn pods_that_the_kubelet_pinned_are_handled_before_unknown_ones() {
    let pins = KubeletPins {
        pods: [("old".into(), [("main".into(), set("1,9"))].into())].into(),
    };
    let mut scene = Scene::with(false, pins);
    let unknown = pod_spec("unknown", &cpus(2));
    let old = pod_spec("old", &cpus(2));
    let pods = vec![
        (sandbox("unknown", &unknown), Some(Arc::new(unknown))),
        (sandbox("old", &old), Some(Arc::new(old))),
    ];
    let synchronized = scene
        .node
        .synchronize(pods, Vec::new(), &mut NoPreference, NOW);
    let (_, changes) = synchronized;
    let pinned = SyncChange::KeptKubeletCpus {
        pod: "old".into(),
        cpus: set("1,9"),
    };
    assert_eq!(changes, [pinned, SyncChange::Adopted("unknown".into())]);
}

#[test]
fn an_observe_only_node_admits_pods_and_sends_no_updates() {
    let mut scene = Scene::kubelet();
    scene.node = scene.node.observe_only();
    assert_eq!(scene.run("a", &cpus(2)), None);
    assert_eq!(scene.run("b", "spec: {containers: [{name: main}]}"), None);
    let held = scene.node.journaled().ledger().exclusive_cpus(&"a".into());
    assert_eq!(held.len(), 2);
    assert_eq!(scene.stop("a"), []);
}

#[test]
fn running_pods_are_aligned_to_the_devices_that_the_kubelet_assigned() {
    use pinfold_core::device::{AdvertisedDevices, Device};
    use pinfold_devices::align;

    let mut scene = Scene::kubelet();
    let text = "spec:\n  containers:\n  - name: main\n    resources:\n      \
        limits: {cpu: 2, memory: 10Mi, vendor.com/gpu: 1}\n";
    let pod = pod_spec("g", text);
    let sandbox_of_pod = sandbox("g", &pod);
    let device = Device {
        numa: Some(vec![1]),
        healthy: true,
    };
    let offer: AdvertisedDevices = [("gpu7".into(), device)].into();
    let given = [("main".into(), [("vendor.com/gpu".into(), offer)].into())].into();
    let kubelet_devices = [("g".into(), align::align_pod(&pod.pod, &given))].into();
    let container = ManagedContainer::new("g-main".to_owned(), &sandbox_of_pod, "main".into());
    let pods = vec![(sandbox_of_pod, Some(Arc::new(pod)))];
    let synchronized =
        scene
            .node
            .synchronize_with_kubelet_devices(pods, vec![container], kubelet_devices, NOW);
    let (_, changes) = synchronized;
    assert_eq!(changes, [SyncChange::Adopted("g".into())]);
    // Node 1 has CPUs 4-7 and 12-15.
    assert_eq!(scene.sent_cpus("g-main"), "4,12");
    let synchronized =
        scene
            .node
            .synchronize_with_kubelet_devices(Vec::new(), Vec::new(), BTreeMap::new(), NOW);
    assert_eq!(synchronized.1, [SyncChange::Released("g".into())]);
    let pool = scene.node.journaled().ledger().state().pool();
    assert_eq!(
        pool.resources().count(),
        0,
        "its devices are removed with it"
    );
}

#[test]
fn pods_that_were_admitted_while_the_kubelet_pinned_keep_the_kubelets_cpus() {
    for koordinator in [false, true] {
        let spec = match koordinator {
            true => class("LSR", 3),
            false => cpus(3),
        };
        keeps_the_kubelets_cpus(koordinator, &spec);
    }
}

fn keeps_the_kubelets_cpus(koordinator: bool, spec: &str) {
    let pins = KubeletPins {
        // CPU 8 is reserved by the agent's rules.
        pods: [("old".into(), [("main".into(), set("7-8,15"))].into())].into(),
    };
    let mut scene = Scene::with(koordinator, KubeletPins::default());
    scene.node = scene.node.observe_only();
    scene.run("old", spec);
    assert_ne!(
        scene
            .node
            .journaled()
            .ledger()
            .exclusive_cpus(&"old".into()),
        set("7,15")
    );
    scene.pins = pins;
    scene.restart(UnknownContainers::Adopt);
    let old = pod_spec("old", spec);
    let sandbox_of_pod = sandbox("old", &old);
    let container =
        |name: &str| ManagedContainer::new(format!("old-{name}"), &sandbox_of_pod, name.into());
    let containers = vec![container("main"), container("sidecar")];
    let pods = vec![(sandbox_of_pod.clone(), Some(Arc::new(old)))];
    let (updates, changes) =
        scene
            .node
            .synchronize(pods.clone(), containers.clone(), &mut NoPreference, NOW);
    assert!(
        matches!(&changes[..], [SyncChange::KeptKubeletCpus { .. }]),
        "{changes:?}"
    );
    assert_eq!(
        scene
            .node
            .journaled()
            .ledger()
            .exclusive_cpus(&"old".into()),
        set("7,15")
    );
    // Its pinned container is not touched; its sidecar leaves the CPUs of others.
    let touched: Vec<&str> = updates
        .iter()
        .map(|update| update.container.as_str())
        .collect();
    assert_eq!(touched, ["old-sidecar"]);
    assert_eq!(scene.sent_cpus("old-sidecar"), "0-6,8-14");
    let (_, changes) = scene
        .node
        .synchronize(pods, containers, &mut NoPreference, NOW);
    assert_eq!(changes, []);
}
