//! The program `pinfold-agent`: its flags and exit codes.

#[path = "../../pinfold-daemon/tests/shared/program.rs"]
mod shared;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pinfold-agent");

#[test]
fn check_config_prints_a_complete_configuration_or_the_error() {
    let _lock = super::faults::exclusive_lock();
    shared::check_config(
        PROGRAM,
        "mode: mirror\n",
        "mode: mirorr\n",
        "did you mean \"mirror\"?",
    );
}

#[test]
fn completions_and_man_pages_name_the_flags() {
    let _lock = super::faults::exclusive_lock();
    shared::manual(PROGRAM);
}
