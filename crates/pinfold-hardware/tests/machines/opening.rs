//! `open` with every kind of specification.

use std::fs;
use std::path::PathBuf;

use pinfold_hardware::open;

/// A file in the temporary directory, removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, contents: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pinfold-{}-{name}", std::process::id()));
        fs::write(&path, contents).expect("a temporary file");
        Self(path)
    }

    fn spec(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn presets_and_descriptions_are_distinguished() {
    for (spec, cpus) in [
        ("gb200-nvl4", 144),
        ("preset:gb200-nvl4", 144),
        (" preset: DGX-H100 ", 224),
        ("2 sockets, 4 cores", 8),
        ("pack:2 core:4 pu:2", 16),
        ("8cores", 8),
        ("mem=4Gi", 1),
    ] {
        let hardware = open(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert_eq!(hardware.cpus.online.len(), cpus, "{spec}");
    }
}

#[test]
fn the_kind_of_a_file_is_detected_by_its_content() {
    let xml = "<topology><object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/></topology>";
    let recording = "pinfold-machine 1\nsys/devices/system/cpu/cpu0\nsys/devices/system/cpu/cpu1\n";
    for (name, contents, cpus) in [
        ("xml", xml, 1),
        ("recording", recording, 2),
        ("description", "# my lab\n2 sockets, # two\n8 cores\n", 16),
    ] {
        let file = Temporary::new(name, contents);
        let hardware = open(file.spec()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hardware.cpus.online.len(), cpus, "{name}");
    }
}

#[test]
fn this_machine_has_a_cpu() {
    for spec in ["", "this"] {
        let hardware = open(spec).expect("this machine");
        assert!(!hardware.cpus.online.is_empty());
        assert!(hardware.cores.iter().all(|core| !core.cpus.is_empty()));
        assert!(!hardware.nodes.is_empty());
    }
}

#[test]
fn an_unknown_specification_is_an_error_with_a_hint() {
    for (spec, says) in [
        ("gb200-nvl", "did you mean \"gb200-nvl4\"?"),
        ("preset:xeon-8480-snc3", "did you mean \"xeon-8480-snc2\"?"),
        (
            "preset:banana",
            "the presets are ampere-altra, cxl-expander,",
        ),
        (
            "/no/such/file.xml",
            "cannot read /no/such/file.xml: No such file or directory",
        ),
        ("nope.xml", "cannot read nope.xml: No such file"),
        ("nope.tar.bz2", "cannot read nope.tar.bz2: No such file"),
        (
            "banana",
            "a description such as \"2 sockets, 16 cores, smt2\"",
        ),
        ("2 sockets, 16 coers", "did you mean \"cores\"?"),
        ("/proc/self/fdinfo", "no CPU found under"),
    ] {
        let error = open(spec).expect_err(spec).to_string();
        assert!(error.contains(says), "{spec}: {error}");
    }
}

#[test]
fn an_archive_is_an_error_that_says_to_unpack_it() {
    let mut tar = "x".repeat(257);
    tar.push_str("ustar\0");
    for (format, contents) in [
        ("bzip2", "BZh91AY&SY"),
        ("zip", "PK\u{3}\u{4}"),
        ("tar", &tar),
    ] {
        let file = Temporary::new(format, contents);
        let error = open(file.spec()).expect_err(format).to_string();
        assert!(
            error.contains(&format!("found a {format} archive; unpack it")),
            "{error}"
        );
    }
}
