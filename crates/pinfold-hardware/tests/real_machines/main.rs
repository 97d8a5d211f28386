//! Compares the discovery with hwloc's results on machines of the hwloc project.
//!
//! The machines are not part of this repository. They are looked for in `$PINFOLD_HWLOC_TOPOLOGIES`, or in
//! `../shared/topologies/hwloc` beside it. Without them these tests say so and pass, unless
//! `PINFOLD_REQUIRE_TOPOLOGIES=1`.

mod compare;
mod differences;
mod folder;

use std::path::Path;

use pinfold_hardware::record::Recording;
use pinfold_hardware::{Hardware, from_hwloc_xml, from_sysfs, from_topology_json};
use serde_json::Value;

use compare::Comparison;
use folder::Folder;

#[test]
fn sysfs_discovery_agrees_with_hwloc() {
    let Some(folder) = Folder::find() else { return };
    let mut comparison = Comparison::default();
    for (name, expected) in folder.machines("linux") {
        let tree = folder.unpack(&name);
        let root = tree
            .path()
            .join(text(&expected["sysfs"]["root_in_tarball"]));
        let hardware = from_sysfs(&root).unwrap_or_else(|error| panic!("{name}: {error}"));
        comparison.whole_machine(&name, &hardware, &expected["hwloc_whole_machine"]);
        comparison.sysfs_facts(&name, &hardware, &expected["sysfs"]);
        comparison.allowed(&name, &hardware, &expected["hwloc_allowed"]);
        a_recording_gives_the_same_machine(&name, &root, &hardware);
        json_gives_the_same_machine(&name, &hardware);
    }
    comparison.judge("linux", differences::SYSFS);
}

#[test]
fn xml_import_agrees_with_hwloc() {
    let Some(folder) = Folder::find() else { return };
    let mut comparison = Comparison::default();
    for (name, expected) in folder.machines("xml") {
        let xml = folder.read(&format!("xml/{name}.xml"));
        let hardware = from_hwloc_xml(&xml).unwrap_or_else(|error| panic!("{name}: {error}"));
        comparison.whole_machine(&name, &hardware, &expected["hwloc"]);
        comparison.xml_facts(&name, &hardware, &expected["hwloc"], &xml);
        json_gives_the_same_machine(&name, &hardware);
    }
    comparison.judge("xml", differences::XML);
}

fn a_recording_gives_the_same_machine(name: &str, root: &Path, hardware: &Hardware) {
    let recording = Recording::of(root).expect("a tree that was read can be recorded");
    let mut file = Vec::new();
    recording.write(&mut file).expect("memory takes all bytes");
    let read = Recording::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read, recording, "{name}: the file holds the recording");
    assert_eq!(
        &read.replay().expect("replay"),
        hardware,
        "{name}: the machine is the same"
    );
    let size = file.len();
    assert!(
        size < 100_000,
        "{name}: a recording is one small file, this one has {size} bytes"
    );
}

fn json_gives_the_same_machine(name: &str, hardware: &Hardware) {
    let json = serde_json::json!({ "hardware": hardware }).to_string();
    let read = from_topology_json(&json).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(&read, hardware, "{name}: the machine is the same");
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
