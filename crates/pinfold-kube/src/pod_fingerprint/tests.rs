use pinfold_core::pod::{Container, ResourceList};
use pinfold_core::quantity::Quantity;

use super::*;

/// Test data of the package `podfingerprint`: `compat-tiny-3pods-1ns`, `compat-medium-20pods-1ns`.
const TINY: (&str, &str) = ("production", "jaeger-dpgjk nginx-rt684 envoy-g9m22");
const MEDIUM: (&str, &str) = (
    "development",
    "importer-kxqpk processor-424xv transformer-84vpn jaeger-6g6n9 publisher-cq98w subscriber-24lpk \
     collector-zvl28 watcher-bj7b6 transformer-mk7qw mongodb-b5pxs watcher-4qzlg publisher-ftpnk \
     fluentd-fs9j8 jaeger-flvh4 manager-l6n55 grafana-q7sdf prometheus-qds9v collector-b7fx4 \
     consumer-l94c8 redis-k7rmn",
);

fn of((namespace, names): (&str, &str)) -> String {
    fingerprint(names.split_whitespace().map(|name| (namespace, name)))
}

#[test]
fn the_hash_is_xxh64() {
    // Values of the reference implementation.
    let table: [(&str, u64); 4] = [
        ("", 0xef46_db37_51d8_e999),
        ("a", 0xd24e_c4f1_a98c_6e5b),
        ("abc", 0x44bc_2cf5_ad77_0999),
        (
            "Call me Ishmael. Some years ago--never mind how long precisely-",
            0x02a2_e854_70d6_fd96,
        ),
    ];
    for (text, hash) in table {
        assert_eq!(xxh64(text.as_bytes(), 0), hash, "{text:?}");
    }
}

#[test]
fn fingerprints_are_those_of_the_package_whatever_the_order_of_the_pods() {
    assert_eq!(of(TINY), "pfp0v001607b76a0e9d3aeb4");
    assert_eq!(of(MEDIUM), "pfp0v00111a79869f24a9528");
    let backwards = "envoy-g9m22 nginx-rt684 jaeger-dpgjk";
    assert_eq!(of((TINY.0, backwards)), of(TINY));
}

#[test]
fn fingerprints_are_those_that_nfd_wrote_about_the_same_pods() {
    for (pods, file) in [
        (
            [("default", "one")],
            include_str!("../../tests/peers/nfd/nrt-host-a-after-nfd-wrote-over-pinfold.json"),
        ),
        (
            [("default", "a-c3")],
            include_str!("../../tests/peers/nfd/nrt-with-fingerprint.json"),
        ),
    ] {
        let object: serde_json::Value = serde_json::from_str(file).expect("JSON");
        let mut attributes = object["attributes"].as_array().into_iter().flatten();
        let written = attributes.find(|attribute| attribute["name"] == ATTRIBUTE);
        assert_eq!(written.expect("written")["value"], fingerprint(pods));
    }
}

fn burstable(request: &str, amount: Quantity) -> Pod {
    let mut container = Container::guaranteed("app", [("cpu", Quantity::from(1))]);
    container.limits = ResourceList::new();
    container.requests = [(request.into(), amount)].into();
    Pod::new("p", [container])
}

#[test]
fn a_pod_has_exclusive_resources_if_a_lasting_container_does() {
    let cpus = |milli| Quantity::milli(milli);
    let memory = ("memory", Quantity::bytes(1 << 20));
    let table = [
        (
            "whole CPUs",
            Pod::guaranteed("p", [("cpu", cpus(2000)), memory]),
            true,
        ),
        (
            "memory of a guaranteed pod",
            Pod::guaranteed("p", [("cpu", cpus(1500)), memory]),
            true,
        ),
        ("burstable CPUs", burstable("cpu", cpus(2000)), false),
        ("burstable memory", burstable("memory", memory.1), false),
        (
            "a device",
            burstable("vendor.com/nic", Quantity::from(1)),
            true,
        ),
        ("an init container's", init_only(), false),
    ];
    for (what, pod, expected) in table {
        assert_eq!(has_exclusive_resources(&pod), expected, "{what}");
    }
}

fn init_only() -> Pod {
    let mut app = Container::guaranteed("app", [("cpu", Quantity::milli(100))]);
    app.limits = ResourceList::new();
    let init = Container::guaranteed("init", [("vendor.com/nic", Quantity::from(1))]);
    Pod::new("p", [app]).with_init([init])
}

#[test]
fn each_method_covers_its_own_pods() {
    let plain = burstable("cpu", Quantity::milli(100));
    let device = burstable("vendor.com/nic", Quantity::from(1));
    let covered = |method: FingerprintMethod| {
        [
            method.covers(&plain, StatusPhase::Running),
            method.covers(&device, StatusPhase::Running),
            method.covers(&device, StatusPhase::Terminated),
            method.covers(&device, StatusPhase::Pending),
        ]
    };
    let [all, exclusive, living] = FingerprintMethod::ALL.map(covered);
    assert_eq!(all, [true, true, true, false]);
    assert_eq!(exclusive, [false, true, true, false]);
    assert_eq!(living, [true, true, false, false]);
}
