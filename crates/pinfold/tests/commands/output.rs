//! Rules for the output of all commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;
use pinfold_kube::state::CpuManagerState;
use pinfold_kube::state::cpu::CpuStateFormat;

use crate::program::{Run, run, scratch, words};

fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs")
}

fn play(line: &str) -> Run {
    run(&inputs(), &words(line))
}

const MACHINE: &str = "--machine '2 sockets, 4 cores, smt2'";

#[test]
fn json_and_yaml_are_the_same_value() {
    for line in [
        format!("topology {MACHINE}"),
        format!("simulate {MACHINE} two.yaml"),
        format!("simulate {MACHINE} --compare two.yaml"),
        format!("explain {MACHINE} --pods two.yaml one.yaml"),
        format!("defragment {MACHINE} --pods two.yaml one.yaml"),
        format!("check {MACHINE} --config bad.yaml"),
    ] {
        let json = play(&format!("{line} -o json")).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect(&line);
        let yaml = play(&format!("{line} -o yaml")).stdout;
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).expect(&line);
        assert_eq!(json, yaml, "{line}");
    }
}

#[test]
fn text_has_no_colour_codes_and_fits_80_columns() {
    for line in [
        "topology --machine gb200-nvl4".to_owned(),
        "topology --machine xeon-8480-snc4".to_owned(),
        format!("simulate {MACHINE} --repeat 3 two.yaml"),
        format!("simulate {MACHINE} --compare two.yaml"),
        format!("explain {MACHINE} --pods two.yaml one.yaml"),
        format!("defragment {MACHINE} --pods two.yaml one.yaml"),
        "check --machine gb200-nvl4 --config bad.yaml".to_owned(),
        "demo".to_owned(),
    ] {
        let text = play(&line).stdout;
        assert!(!text.is_empty(), "{line}");
        assert!(!text.contains('\u{1b}'), "{line}");
        for row in text.lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

#[test]
fn a_recording_of_this_machine_reads_as_the_same_machine() {
    let file = format!("{}/this.machine", scratch());
    let recorded = play(&format!("topology --record {file}"));
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    let shape = |machine: &str| {
        let run = play(&format!("topology --machine {machine} -o json"));
        let mut json: serde_json::Value = serde_json::from_str(&run.stdout).expect(machine);
        json["kubelet_view"].take()
    };
    assert_eq!(shape("this"), shape(&file));
}

#[test]
fn explain_reads_a_kubelets_state_files() {
    let folder = format!("{}/kubelet", scratch());
    fs::create_dir_all(&folder).expect("writable");
    let cpus = |list| CpuSet::parse(list).expect("a list");
    let state = CpuManagerState {
        policy: "static".into(),
        default_cpus: cpus("0,8,3-7,11-15"),
        containers: BTreeMap::from([(
            "5c7e".into(),
            BTreeMap::from([("main".into(), cpus("1-2,9-10"))]),
        )]),
        pods: BTreeMap::new(),
    };
    let file = format!("{folder}/cpu_manager_state");
    fs::write(file, state.write(CpuStateFormat::V2)).expect("writable");
    let explained = play(&format!("explain {MACHINE} --state {folder} one.yaml"));
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    let text = explained.stdout;
    assert!(
        text.contains("NUMA node 1") && text.contains("CPUs 4-6,12-14"),
        "{text}"
    );

    let elsewhere = play(&format!(
        "explain --machine '2 cores' --state {folder} one.yaml"
    ));
    assert_eq!(elsewhere.code, 2, "{}", elsewhere.stdout);
}

#[test]
fn completions_and_man_pages_name_every_command() {
    let commands = [
        "topology",
        "simulate",
        "explain",
        "defragment",
        "check",
        "demo",
    ];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = play(&format!("completions {shell}")).stdout;
        for command in commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let folder = format!("{}/man", scratch());
    fs::create_dir_all(&folder).expect("writable");
    assert_eq!(play(&format!("man {folder}")).code, 0);
    for command in commands {
        let page = fs::read_to_string(format!("{folder}/pinfold-{command}.1"));
        assert!(page.expect(command).starts_with(".ie"), "{command}");
    }
}

#[test]
fn simulate_decides_30000_pods() {
    let run = play(&format!(
        "simulate {MACHINE} --repeat 10000 two.yaml -o json"
    ));
    let report: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let counts = &report["counts"];
    let sum = counts["admitted"].as_u64().zip(counts["rejected"].as_u64());
    assert_eq!(sum.map(|(yes, no)| yes + no), Some(30_000));
}
