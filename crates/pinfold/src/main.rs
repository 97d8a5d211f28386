//! `pinfold`: the program. Everything is in the library beside it, so that benchmarks reach what the page is answered.

use std::process::ExitCode;

fn main() -> ExitCode {
    pinfold_program::main()
}
