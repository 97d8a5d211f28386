//! The JSON of a topology is read back as the same machine.

use pinfold_hardware::{Hardware, from_topology_json, presets, synthetic};

/// What `pinfold topology -o json` prints of the machine, apart from what follows from it.
fn json(hardware: &Hardware) -> String {
    serde_json::json!({ "hardware": hardware }).to_string()
}

#[test]
fn presets_and_descriptions_are_read_back_from_json() {
    let presets = presets::PRESETS
        .iter()
        .map(|preset| presets::read(preset.name).expect(preset.name));
    let described = [
        "2 sockets, 2 cores, smt2, gpu=1, nic@1=2, isolated=2-3, offline=1",
        "2 sockets, 2 cores, distances=10,9/21,11",
        "1 socket, 2 numa, 4 cores, hugepages-2Mi=64, cpuless=2",
    ]
    .map(|text| synthetic::read(text).expect(text));
    for hardware in presets.chain(described) {
        let read = from_topology_json(&json(&hardware)).expect("its own JSON");
        assert_eq!(read, hardware);
    }
}

#[test]
fn json_that_contradicts_itself_is_rejected() {
    let hardware = synthetic::read("2 sockets, 2 cores, gpu=1").expect("a machine");
    let whole: serde_json::Value = serde_json::from_str(&json(&hardware)).expect("JSON");
    for (pointer, value, says) in [
        ("/hardware/cpus/online", "\"\"", "expected at least one CPU"),
        ("/hardware/counted_sockets", "0", "expected at least 1"),
        ("/hardware/nodes/1/id", "0", "NUMA node 0 occurs twice"),
        ("/hardware/nodes/1/id", "1024", "expected 0 to 1023"),
        (
            "/hardware/nodes/0/distances",
            "[10]",
            "expected 2 distances, one per node, found 1",
        ),
        (
            "/hardware/cpus/online",
            "\"9-\"",
            "not the JSON of a topology",
        ),
        (
            "/hardware/cpus/online",
            "\"0-99999999\"",
            "not the JSON of a topology",
        ),
        (
            "/hardware/devices/0/address",
            "\"x\"",
            "expected a PCI address",
        ),
        (
            "/hardware/devices/0/vendor",
            "\"12345\"",
            "expected a PCI id",
        ),
        ("/hardware", "null", "not the JSON of a topology"),
    ] {
        let mut changed = whole.clone();
        *changed.pointer_mut(pointer).expect(pointer) = serde_json::from_str(value).expect(value);
        let error = from_topology_json(&changed.to_string()).expect_err(pointer);
        assert!(error.to_string().contains(says), "{pointer}: {error}");
    }
}
