//! `kubectl-pinfold`: the program. Everything is in the library beside it, so that benchmarks reach what the page is
//! answered.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_pinfold_program::main()
}
