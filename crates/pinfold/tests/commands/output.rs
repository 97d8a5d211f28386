//! Rules for the output of all commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;
use pinfold_hardware::presets::PRESETS;
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
fn the_json_of_a_topology_is_the_same_machine() {
    let mut machines: Vec<String> = PRESETS
        .iter()
        .map(|preset| preset.name.to_owned())
        .collect();
    machines.push("'2 sockets, 2 cores, smt2, gpu=1, nic@1=2, isolated=2-3, offline=1'".to_owned());
    machines.push("this".to_owned());
    let file = format!("{}/topology.json", scratch());
    for machine in machines {
        let printed = play(&format!("topology --machine {machine} -o json"));
        fs::write(&file, &printed.stdout).expect("writable");
        let again = play(&format!("topology --machine {file} -o json"));
        assert_eq!(again.stdout, printed.stdout, "{machine}: {}", again.stderr);
        let decided = play(&format!("simulate --machine {machine} two.yaml -o json"));
        let again = play(&format!("simulate --machine {file} two.yaml -o json"));
        let events = |run: &Run| {
            let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap_or_default();
            json["events"].clone()
        };
        assert_eq!(events(&again), events(&decided), "{machine}");
    }
}

#[test]
fn simulate_prints_the_picture_that_it_writes() {
    let file = format!("{}/printed.svg", scratch());
    let drawn = play(&format!("simulate {MACHINE} two.yaml -o svg --svg {file}"));
    assert_eq!(drawn.code, 0, "{}", drawn.stderr);
    assert!(drawn.stdout.starts_with("<svg "), "{}", drawn.stdout);
    assert_eq!(fs::read_to_string(&file).expect("written"), drawn.stdout);
    assert!(
        drawn
            .stdout
            .contains("<title>2 sockets, 4 cores, smt2</title>")
    );
    let compared = play(&format!("simulate {MACHINE} two.yaml -o svg --compare"));
    assert_eq!(compared.code, 2);
    let cluster = play(&format!("simulate {MACHINE} two.yaml -o svg --copies 2"));
    assert_eq!(
        cluster.stderr,
        "pinfold: -o svg draws one node: --svg FILE writes a picture of every node\n"
    );
}

#[test]
fn explain_shows_what_remote_memory_costs() {
    let pods = format!("{}/remote.yaml", scratch());
    let pod = |name: &str, cpus: u32, memory: u32| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, \
             resources: {{limits: {{cpu: {cpus}, memory: {memory}Gi}}}}}}]}}\n"
        )
    };
    fs::write(&pods, pod("a", 7, 1) + &pod("b", 1, 60)).expect("writable");
    let new = format!("{}/remote-new.yaml", scratch());
    fs::write(&new, pod("new", 6, 40)).expect("writable");
    let explained = play(&format!(
        "explain --machine '2 sockets, 8 cores, distances=10,32' --policy best-effort --pods {pods} {new}"
    ));
    let expected = "\nRemote memory\n  container main: memory on NUMA node 0, distance 32 from the CPUs on NUMA node\n    \
                    1: 3.2x local by the firmware's table (SLIT)\n";
    assert!(explained.stdout.contains(expected), "{}", explained.stdout);
}

#[test]
fn completions_know_the_presets_and_policies() {
    let script = play("completions bash").stdout;
    for preset in PRESETS {
        assert!(script.contains(preset.name), "{}", preset.name);
    }
    assert!(script.contains("none best-effort restricted single-numa-node"));
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
