use pinfold_core::name::PodUid;
use proptest::prelude::*;

use super::*;

const UID: &str = "0aa1b2c3-0d4e-11f0-8f15-0242ac120002";

#[test]
fn a_runtime_s_name_is_parsed_in_both_forms() {
    let table = [
        (
            "/kubepods/burstable/pod0aa1b2c3-0d4e-11f0/4f0c",
            "kubepods/burstable/pod0aa1b2c3-0d4e-11f0/4f0c",
        ),
        ("kubepods//pod1/./4f0c/", "kubepods/pod1/4f0c"),
        (
            "kubepods-burstable-pod0aa1_0d4e.slice:cri-containerd:4f0c",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0aa1_0d4e.slice/cri-containerd-4f0c.scope",
        ),
        (
            "kubepods-pod1.slice:crio:4f0c",
            "kubepods.slice/kubepods-pod1.slice/crio-4f0c.scope",
        ),
        ("system.slice:runc:x", "system.slice/runc-x.scope"),
        (":runc:x", "system.slice/runc-x.scope"),
        ("-.slice:runc:x", "runc-x.scope"),
        ("a.slice:p:b.slice", "a.slice/b.slice"),
        // Only two colons make the systemd form.
        ("/pods/a:b", "pods/a:b"),
    ];
    for (text, expected) in table {
        let found = GroupPath::of_container(text);
        assert_eq!(
            found.as_ref().map(GroupPath::as_str),
            Ok(expected),
            "{text}"
        );
    }
}

#[test]
fn a_name_that_leaves_the_hierarchy_is_rejected() {
    let long = "x".repeat(256);
    for text in [
        "",
        "/",
        "..",
        "/kubepods/../../etc",
        "/kubepods/..",
        "a\0b",
        "a\nb",
        &long,
        "-.slice:a/../..:b",
        "a.slice:p:../b",
        "../a.slice:p:b",
        "a:p:b",
        "-a.slice:p:b",
        "a-.slice:p:b",
        "a--b.slice:p:c",
        ".slice:p:c",
    ] {
        let found = GroupPath::of_container(text);
        assert!(found.is_err(), "{text:?} was taken for {found:?}");
    }
}

#[test]
fn a_pod_is_found_by_the_names_that_the_kubelet_gives_its_groups() {
    for path in [
        "kubepods/pod12-ab",
        "kubepods/burstable/pod12-ab",
        "test/node.slice/kubepods/besteffort/pod12-ab",
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12_ab.slice",
        "node.slice/node-kubepods.slice/node-kubepods-pod12_ab.slice",
    ] {
        let pod = GroupPath::parse(path).expect("a path");
        assert_eq!(pod.pod(), Some(PodUid::from("12-ab")), "{path}");
        let container = pod.child("4f0c").expect("a name");
        assert_eq!(
            container.pod_group(),
            Some(pod.clone()),
            "above {container}"
        );
        let top = container.kubepods().expect("it is a pod's");
        assert!(path.starts_with(top.as_str()) && top.name().contains("kubepods"));
    }
}

#[test]
fn a_group_outside_of_pods_has_no_pod() {
    for text in [
        "/",
        "system.slice/podman.service",
        "pod12/x",
        "kubepods",
        "kubepods/burstable",
    ] {
        let path = GroupPath::parse(text).expect("a path");
        assert_eq!(path.pod(), None, "{text}");
    }
    let path = GroupPath::parse(&format!("kubepods/pod{UID}/podman")).expect("a path");
    assert_eq!(
        path.pod(),
        Some(UID.into()),
        "a container that is called like a pod"
    );
}

#[test]
fn ancestors_are_listed_from_the_root_down() {
    let path = GroupPath::parse("/a/b/c").expect("a path");
    let above: Vec<String> = path.ancestors().iter().map(ToString::to_string).collect();
    assert_eq!(above, ["", "a", "a/b"]);
    assert_eq!(
        path.parent(),
        above.last().map(|last| GroupPath(last.clone()))
    );
    assert_eq!(GroupPath::root().parent(), None);
    assert!(GroupPath::root().ancestors().is_empty());
    for name in ["", ".", "..", "a/b", "a\n"] {
        assert!(path.child(name).is_err(), "{name:?}");
    }
}

proptest! {
    #[test]
    fn no_text_leads_out_of_the_hierarchy(text in "[a.:/\\-]{0,12}(slice)?[.:a/\\-]{0,8}") {
        if let Ok(path) = GroupPath::of_container(&text) {
            prop_assert!(!path.is_root());
            prop_assert!(path.as_str().split('/').all(|name| !matches!(name, "" | "." | "..")));
        }
    }
}

#[test]
fn a_group_is_a_unit_of_systemd_if_it_and_its_parents_are_named_like_units() {
    for (path, unit) in [
        ("kubepods.slice", Some("kubepods.slice")),
        (
            "kubepods.slice/kubepods-pod1.slice/cri-containerd-4f0c.scope",
            Some("cri-containerd-4f0c.scope"),
        ),
        ("system.slice/web.service", Some("web.service")),
        ("system.slice/web.service/worker", None),
        ("system.slice/web.service/inner.scope", None),
        ("kubepods/pod1/4f0c", None),
        ("", None),
    ] {
        let path = GroupPath::parse(path).expect("a path");
        assert_eq!(path.systemd_unit(), unit, "{path}");
    }
}
