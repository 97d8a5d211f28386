//! Recordings give the same machine and contain nothing else.

use std::path::Path;

use pinfold_hardware::from_sysfs;
use pinfold_hardware::record::Recording;

#[test]
fn this_machine_is_the_same_after_a_round_trip() {
    let recording = Recording::of(Path::new("/")).expect("this machine");
    let mut file = Vec::new();
    recording.write(&mut file).expect("memory takes all bytes");
    let read = Recording::read(&file).expect("what was just written");
    assert_eq!(read, recording);
    let plain = Recording::read(recording.to_text().as_bytes()).expect("plain text");
    assert_eq!(plain, recording);

    let mut live = from_sysfs(Path::new("/")).expect("this machine");
    let mut replayed = read.replay().expect("a machine");
    // Values that change while the test runs: free memory and, with balloons and hotplug, all memory.
    for hardware in [&mut live, &mut replayed] {
        hardware.memory = 0;
        for node in &mut hardware.nodes {
            node.memory = 0;
            node.free = None;
            for pool in &mut node.hugepages {
                pool.free = None;
            }
        }
    }
    assert_eq!(replayed, live);
}

#[test]
fn a_recording_contains_nothing_that_identifies_its_owner() {
    let text = Recording::of(Path::new("/"))
        .expect("this machine")
        .to_text();
    for secret in [
        "serial",
        "uuid",
        "hostname",
        "cmdline",
        "machine-id",
        "address =",
    ] {
        assert!(!text.contains(secret), "{secret}");
    }
    for line in text.lines().skip(1) {
        let known = line.starts_with("sys/") || line.starts_with("proc/");
        assert!(known || line.contains("cpuset"), "{line}");
    }
}

#[test]
fn a_recording_has_only_the_control_group_that_limits_cpus() {
    let root = std::env::temp_dir().join(format!("pinfold-{}-groups", std::process::id()));
    for (path, text) in [
        (
            "proc/mounts",
            "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n/dev/sda1 /home/alice ext4 rw 0 0\n",
        ),
        (
            "proc/self/cgroup",
            "4:memory:/user/alice\n3:cpu,cpuset:/part\n0::/unified\n",
        ),
        ("sys/fs/cgroup/cpuset/part/cpuset.cpus", "0\n"),
        ("sys/fs/cgroup/cpuset/part/cpuset.mems", "0\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
        (
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "0\n",
        ),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "1\n"),
        (
            "sys/devices/system/cpu/cpu1/topology/physical_package_id",
            "0\n",
        ),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node0/distance", "10\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        std::fs::write(path, text).expect("a temporary file");
    }
    let recording = Recording::of(&root).expect("a machine");
    std::fs::remove_dir_all(&root).expect("it was there");
    let text = recording.to_text();
    assert!(!text.contains("alice"), "{text}");
    let limits = recording.replay().expect("a machine").allowed;
    let limits = limits.expect("the limits of the group");
    assert_eq!(limits.cpus.to_string(), "0");
}

#[test]
fn a_file_that_is_not_a_recording_is_rejected() {
    for (bytes, says) in [
        (&b""[..], "line 1: expected \"pinfold-machine 1\""),
        (b"pinfold-machine 2\n", "line 1"),
        (
            b"pinfold-machine 1\nsys/a = \\x\n",
            "line 2: unknown escape",
        ),
        (b"\x1f\x8b\x08nonsense", "the compressed data is damaged"),
        (b"pinfold-machine 1\n\xff", "it is not text"),
    ] {
        let error = Recording::read(bytes).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    let empty = Recording::read(b"pinfold-machine 1\n").expect("a recording of nothing");
    assert!(empty.replay().is_err());
}

#[test]
fn a_small_file_that_unpacks_to_a_large_one_is_rejected() {
    use std::io::Write as _;
    let mut file = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let megabyte = vec![b'a'; 1 << 20];
    for _ in 0..80 {
        file.write_all(&megabyte).expect("memory takes all bytes");
    }
    let error = Recording::read(&file.finish().expect("a file")).expect_err("too large");
    assert!(error.to_string().contains("beyond the limit"), "{error}");
}

#[test]
fn names_with_line_ends_survive_a_round_trip() {
    for line in [
        "x\r\r\n",
        "link -> name\r\r\n",
        "a\\nb\n",
        "link -> a\\nb\n",
        "a\\\\n = \\r\n",
    ] {
        let text = format!("pinfold-machine 1\n{line}");
        let recording = Recording::read(text.as_bytes()).expect("a recording");
        let written = recording.to_text();
        let again = Recording::read(written.as_bytes()).expect("what was just written");
        assert_eq!(again, recording, "{line:?} became {written:?}");
    }
}
