//! Error messages say what is wrong and what to do, in the words of the command.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Run, run, scratch, words};

fn play(line: &str) -> Run {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs");
    run(&inputs, &words(line))
}

/// A new file in the scratch directory.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(scratch()).join(name);
    fs::write(&path, text).expect("writable");
    path
}

#[test]
fn checkpoint_names_the_check_command_with_the_flags_of_the_user() {
    let failed = play(
        "checkpoint one.yaml --kubelet-root kubelet --config good.yaml --machine '2 cores' --dry-run",
    );
    assert_eq!(failed.code, 2, "{}", failed.output());
    let command = "  try: pinfold check --config good.yaml --machine '2 cores'\n";
    assert!(failed.stderr.ends_with(command), "{}", failed.stderr);
}

#[test]
fn an_amount_that_is_none_is_answered_with_examples() {
    for (line, expected) in [
        (
            "run --cpus abc -- x",
            "expected a number of CPUs such as 4, 1.5 or 500m",
        ),
        (
            "run --memory 2GB -- x",
            "expected an amount of memory such as 512Mi or 2Gi",
        ),
    ] {
        let failed = play(line);
        assert_eq!(failed.code, 2);
        assert!(failed.stderr.contains(expected), "{}", failed.stderr);
        assert!(!failed.stderr.contains("regular expression"));
    }
}

#[test]
fn a_rejected_run_does_not_speak_of_pods() {
    let rejected = play("run --dry-run --machine '2 cores' --cpus 64 -- ./simulation");
    assert_eq!(rejected.code, 1);
    assert!(
        rejected.stdout.starts_with(
            "cannot run simulation:\n  cpu: 64 CPUs requested, but the machine has only 1.\n"
        ),
        "{}",
        rejected.stdout
    );
    let shared = play("run --dry-run --machine '2 cores' --cpus 500m -- ./simulation");
    assert!(
        shared.stdout.ends_with("  1 command in the shared pool\n"),
        "{}",
        shared.stdout
    );
}

#[test]
fn a_wrong_checksum_of_a_state_file_is_called_that() {
    let folder = Path::new(scratch()).join("wrong-checksum");
    fs::create_dir_all(&folder).expect("writable");
    let state = r#"{"policyName":"static","defaultCpuSet":"0-3","entries":{},"checksum":12345}"#;
    fs::write(folder.join("cpu_manager_state"), state).expect("writable");
    let failed = play(&format!(
        "explain --machine '4 cores' --state {} one.yaml",
        folder.display()
    ));
    assert_eq!(failed.code, 2, "{}", failed.output());
    let file = "TMP/wrong-checksum/cpu_manager_state";
    let first = format!(
        "pinfold: {file}: the checksum does not match the content: the file was changed, or only part of it copied; \
         copy it again\n  the kubelet says: "
    );
    assert!(failed.stderr.starts_with(&first), "{}", failed.stderr);

    fs::write(folder.join("cpu_manager_state"), "x").expect("writable");
    let failed = play(&format!(
        "explain --machine '4 cores' --state {} one.yaml",
        folder.display()
    ));
    let first = format!("pinfold: {file}: not a state file of a kubelet\n");
    assert!(failed.stderr.starts_with(&first), "{}", failed.stderr);
}

#[test]
fn a_machine_that_is_missing_an_archive_or_a_word_is_answered_with_what_to_do() {
    let archive = file("machine.tar.bz2", "BZh91AY&SY");
    for (machine, expected) in [
        (
            "nope.xml",
            "pinfold: cannot read nope.xml: No such file or directory (os error 2)\n".to_owned(),
        ),
        (
            "nope.tar.bz2",
            "pinfold: cannot read nope.tar.bz2: No such file or directory (os error 2)\n".to_owned(),
        ),
        (
            "list",
            "pinfold: no machine \"list\": expected \"this\", a directory with sys and proc in it, a recording, an \
             hwloc XML file, JSON of a topology, a preset or a description such as \"2 sockets, 16 cores, smt2\"\n  \
             pinfold presets lists the presets\n"
                .to_owned(),
        ),
        (
            archive.to_str().expect("text"),
            "pinfold: TMP/machine.tar.bz2: expected a recording, an hwloc XML file, JSON of a topology or a \
             description, found a bzip2 archive; unpack it and name the directory that holds sys and proc\n"
                .to_owned(),
        ),
    ] {
        let failed = play(&format!("topology --machine {machine}"));
        assert_eq!(failed.code, 2);
        assert_eq!(failed.stderr, expected);
    }
}

/// apimachinery v0.36.4 computes with the low 64 bits: a number in YAML is a float beyond 2^64 and becomes `100E`, whose
/// value is 0; in quotes it stays whole, and 1000 times it are 200376420520688664 in 64 bits.
#[test]
fn amounts_beyond_64_bits_are_what_kubernetes_makes_of_them() {
    for (amount, answer) in [
        (
            "99999999999999999999",
            "  main: shared, because 100E does not fit 64 bits, and Kubernetes computes with\n    0\n",
        ),
        (
            "'99999999999999999999'",
            "(cpu: 200376420520688664m asked,\n",
        ),
        (
            "9223372036854775807",
            "cpu: 9223372036854775807 CPUs requested,",
        ),
    ] {
        let pod = file(
            "huge.yaml",
            &format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: huge}}\nspec:\n  containers:\n  - name: main\n    \
                 resources: {{limits: {{cpu: {amount}, memory: 1Gi}}}}\n"
            ),
        );
        let explained = play(&format!(
            "explain --machine '2 sockets, 4 cores' {}",
            pod.display()
        ));
        assert!(explained.stdout.contains(answer), "{}", explained.stdout);
    }
}
