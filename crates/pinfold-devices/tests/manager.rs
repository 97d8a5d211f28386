//! The plugin manager with plugins in the same process.

use std::path::Path;
use std::time::Duration;

use crate::fake::{Behaviour, Fake, device, register};
use kubelet_api::device_plugin::{Device, DevicePluginOptions, KUBELET_SOCKET, VERSION};
use pinfold_core::device::{
    AdvertisedDevices, DeviceSet, PreferredAllocation, PreferredAllocationQuery,
};
use pinfold_core::name::ResourceName;
use pinfold_devices::{
    DeviceAllocations, PluginError, PluginLimits, PluginManager, PluginManagerConfig, PluginOffer,
};
use tempfile::TempDir;

const GPU: &str = "example.com/gpu";
const PATIENCE: Duration = Duration::from_secs(30);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn limits() -> PluginLimits {
    PluginLimits {
        tick: Duration::from_millis(20),
        ..PluginLimits::default()
    }
}

fn manager(folder: &Path, limits: PluginLimits) -> PluginManager {
    let mut config = PluginManagerConfig::new(folder);
    config.limits = limits;
    PluginManager::start(config).expect("it starts")
}

/// The next offer in short: `id+node` for healthy devices, `id-node` for others.
fn next(manager: &PluginManager) -> Option<String> {
    let offer: PluginOffer = manager.offers().next(PATIENCE).expect("an offer");
    offer.devices.as_ref().map(short)
}

fn short(offer: &AdvertisedDevices) -> String {
    let one = |(id, device): (_, &pinfold_core::device::Device)| {
        let nodes: Vec<i64> = device.numa.clone().unwrap_or_default();
        format!("{id}{}{nodes:?}", if device.healthy { '+' } else { '-' })
    };
    offer.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn gpus() -> Behaviour {
    Behaviour {
        devices: vec![device("g0", "Healthy", 0), device("g1", "Healthy", 1)],
        ..Behaviour::default()
    }
}

fn start_gpus(folder: &Path, behaviour: Behaviour) -> Fake {
    let fake = Fake::start(folder, "gpu.sock", behaviour);
    register(folder, VERSION, "gpu.sock", GPU).expect("it registers");
    fake
}

fn set(ids: &[&str]) -> DeviceSet {
    ids.iter().map(|&id| id.into()).collect()
}

#[test]
fn lists_and_changes_of_health_are_queued_as_offers() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    fake.list(&[device("g0", "Unhealthy", 0), device("g1", "Healthy", 1)]);
    assert_eq!(next(&manager).as_deref(), Some("g0-[0] g1+[1]"));
    fake.list(&[device("g1", "Healthy", 1)]);
    assert_eq!(next(&manager).as_deref(), Some("g1+[1]"));
}

#[test]
fn devices_of_a_stopped_plugin_are_unhealthy_and_later_removed() {
    let folder = folder();
    let grace = Duration::from_millis(100);
    let manager = manager(folder.path(), PluginLimits { grace, ..limits() });
    let fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    fake.end_lists();
    assert_eq!(next(&manager).as_deref(), Some("g0-[0] g1-[1]"));
    assert_eq!(next(&manager), None);
}

#[test]
fn devices_of_a_restarted_plugin_are_healthy_again() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    drop(fake);
    assert_eq!(next(&manager).as_deref(), Some("g0-[0] g1-[1]"));
    let mut allocations = DeviceAllocations::default();
    let devices = [(GPU.into(), set(&["g0"]))].into();
    let stopped = manager.allocate(&"p".into(), &"c".into(), &devices, &mut allocations);
    assert_eq!(stopped, Err(PluginError::Stopped(GPU.into())));
    let _fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
}

#[test]
fn the_end_of_an_old_connection_does_not_stop_the_plugin_that_replaced_it() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let old = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    let new = Fake::start(
        folder.path(),
        "new.sock",
        Behaviour {
            devices: vec![device("n0", "Healthy", 0)],
            ..Behaviour::default()
        },
    );
    register(folder.path(), VERSION, "new.sock", GPU).expect("it registers");
    assert_eq!(next(&manager).as_deref(), Some("n0+[0]"));
    drop(old);
    new.list(&[device("n0", "Healthy", 1)]);
    assert_eq!(next(&manager).as_deref(), Some("n0+[1]"));
}

#[test]
fn a_failed_registration_leaves_the_previous_plugin_registered() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    for (version, endpoint, resource, message) in [
        (
            "v1alpha1",
            "gpu.sock",
            GPU,
            "requested API version \"v1alpha1\" is not supported",
        ),
        (
            VERSION,
            "../gpu.sock",
            GPU,
            "the Endpoint \"../gpu.sock\" is not the name of a socket",
        ),
        (
            VERSION,
            "gpu.sock",
            "gpu",
            "the ResourceName \"gpu\" is invalid",
        ),
        (VERSION, "nobody.sock", GPU, "failed to dial device plugin"),
    ] {
        let rejected = register(folder.path(), version, endpoint, resource);
        let status = rejected.expect_err(message);
        assert!(status.message().starts_with(message), "{status}");
    }
    fake.list(&[]);
    assert_eq!(next(&manager).as_deref(), Some(""));
}

#[test]
fn a_list_that_is_too_long_stops_the_plugin() {
    let folder = folder();
    let manager = manager(
        folder.path(),
        PluginLimits {
            devices: 3,
            ..limits()
        },
    );
    let fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    let four: Vec<Device> = (0..4)
        .map(|i| device(&format!("g{i}"), "Healthy", 0))
        .collect();
    fake.list(&four);
    assert_eq!(next(&manager).as_deref(), Some("g0-[0] g1-[1]"));
}

#[test]
fn a_message_that_is_too_long_stops_the_plugin() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    let id = "x".repeat(kubelet_api::MAX_MESSAGE);
    fake.list(&[Device {
        id,
        ..Device::default()
    }]);
    assert_eq!(next(&manager).as_deref(), Some("g0-[0] g1-[1]"));
}

#[test]
fn resources_beyond_the_limit_are_rejected_and_earlier_ones_stay() {
    let folder = folder();
    let manager = manager(
        folder.path(),
        PluginLimits {
            resources: 3,
            ..limits()
        },
    );
    let _fake = Fake::start(folder.path(), "gpu.sock", gpus());
    let registered = (0..20).filter(|i| {
        register(
            folder.path(),
            VERSION,
            "gpu.sock",
            &format!("example.com/r{i}"),
        )
        .is_ok()
    });
    assert_eq!(registered.count(), 3);
    for _ in 0..3 {
        assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    }
    assert_eq!(manager.devices().len(), 3);
}

#[test]
fn a_plugin_that_registers_repeatedly_is_watched_once() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let fake = Fake::start(folder.path(), "gpu.sock", gpus());
    for _ in 0..50 {
        register(folder.path(), VERSION, "gpu.sock", GPU).expect("it registers");
    }
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    let known = || short(&manager.devices()[GPU]);
    while fake.watchers() != 1 || known() != "g0+[0]" {
        fake.list(&[device("g0", "Healthy", 0)]);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn plugins_are_called_for_preferences_allocation_and_pre_start() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let options = DevicePluginOptions {
        pre_start_required: true,
        get_preferred_allocation_available: true,
    };
    let preferences = Some(vec!["g1".to_owned(), "g7".to_owned()]);
    let fake = start_gpus(
        folder.path(),
        Behaviour {
            options,
            preferences,
            ..gpus()
        },
    );
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    let resource = ResourceName::from(GPU);
    let ask = PreferredAllocationQuery {
        resource: &resource,
        available: &set(&["g0", "g1"]),
        must_include: &set(&["g0"]),
        size: 1,
    };
    assert_eq!(
        manager.preferences().preferred(ask),
        Ok(Some(set(&["g1", "g7"])))
    );
    let mut allocations = DeviceAllocations::default();
    let (pod, container) = ("p".into(), "c".into());
    let devices = [(resource, set(&["g1"]))].into();
    assert_eq!(
        manager.allocate(&pod, &container, &devices, &mut allocations),
        Ok(())
    );
    assert_eq!(allocations.edits(&pod, &container).envs["DEVICES"], "g1");
    assert_eq!(manager.pre_start(&pod, &container, &allocations), Ok(()));
    let heard = fake.heard.lock().expect("no panic").clone();
    assert_eq!(
        heard,
        ["advise 1 of g0,g1 with g0", "allocate g1", "start g1"]
    );
}

#[test]
fn a_plugin_without_options_gets_no_optional_calls() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let fake = start_gpus(folder.path(), gpus());
    let resource = ResourceName::from(GPU);
    let all = set(&["g0", "g1"]);
    let ask = PreferredAllocationQuery {
        resource: &resource,
        available: &all,
        must_include: &set(&[]),
        size: 1,
    };
    assert_eq!(manager.preferences().preferred(ask), Ok(None));
    let mut allocations = DeviceAllocations::default();
    let devices = [(resource, set(&["g1"]))].into();
    assert_eq!(
        manager.allocate(&"p".into(), &"c".into(), &devices, &mut allocations),
        Ok(())
    );
    assert_eq!(
        manager.pre_start(&"p".into(), &"c".into(), &allocations),
        Ok(())
    );
    assert_eq!(*fake.heard.lock().expect("no panic"), ["allocate g1"]);
}

#[test]
fn a_slow_or_empty_allocate_fails_and_records_nothing() {
    for behaviour in [
        Behaviour {
            allocate_takes: Duration::from_secs(3600),
            ..gpus()
        },
        Behaviour {
            allocate_answers_nothing: true,
            ..gpus()
        },
    ] {
        let folder = folder();
        let allocate_timeout = Duration::from_millis(500);
        let manager = manager(
            folder.path(),
            PluginLimits {
                allocate_timeout,
                ..limits()
            },
        );
        let is_slow = !behaviour.allocate_takes.is_zero();
        let _fake = start_gpus(folder.path(), behaviour);
        let mut allocations = DeviceAllocations::default();
        let devices = [(GPU.into(), set(&["g1"]))].into();
        let error = manager.allocate(&"p".into(), &"c".into(), &devices, &mut allocations);
        match error.expect_err("no answer") {
            PluginError::TimedOut { .. } => assert!(is_slow),
            other => assert_eq!(other, PluginError::NoAnswer(GPU.into())),
        }
        assert_eq!(allocations, DeviceAllocations::default());
    }
}

#[test]
fn a_removed_registration_socket_is_created_again() {
    let folder = folder();
    let manager = manager(folder.path(), limits());
    let socket = folder.path().join(KUBELET_SOCKET);
    std::fs::remove_file(&socket).expect("it was there");
    while !socket.exists() {
        std::thread::yield_now();
    }
    let _fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
    drop(manager);
    assert!(!socket.exists());
}

#[test]
fn resources_of_a_checkpoint_are_known_without_devices() {
    let folder = folder();
    let mut config = PluginManagerConfig::new(folder.path());
    config.limits = limits();
    config.restored = [GPU.into()].into();
    let manager = PluginManager::start(config).expect("it starts");
    assert_eq!(next(&manager).as_deref(), Some(""));
    let _fake = start_gpus(folder.path(), gpus());
    assert_eq!(next(&manager).as_deref(), Some("g0+[0] g1+[1]"));
}

#[test]
fn old_sockets_are_removed_and_other_files_stay() {
    let folder = folder();
    let old = folder.path().join("old.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&old).expect("a socket");
    let file = folder.path().join("kubelet_internal_checkpoint");
    std::fs::write(&file, "kept").expect("a file");
    let _manager = manager(folder.path(), limits());
    assert!(!old.exists());
    assert!(file.exists());
}
