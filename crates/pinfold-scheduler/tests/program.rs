//! The program `pinfold-scheduler`: its flags and exit codes.

#[path = "../../pinfold-daemon/tests/shared/program.rs"]
mod shared;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pinfold-scheduler");

#[test]
fn check_config_prints_a_complete_configuration_or_the_error() {
    shared::check_config(
        PROGRAM,
        "weights: {prefer: spread}\n",
        "weights: {prefer: spraed}\n",
        "did you mean \"spread\"?",
    );
}

#[test]
fn completions_and_man_pages_name_the_flags() {
    shared::manual(PROGRAM);
}
