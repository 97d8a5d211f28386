//! The command line of Pinfold.

use std::path::Path;
use std::process::ExitCode;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the command line talks to people"
)]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [command, dir, rest @ ..] = args.as_slice() else {
        eprintln!("usage: pinfold conformance DIR [FAMILY]");
        return ExitCode::from(2);
    };
    if command != "conformance" {
        eprintln!("unknown command {command:?}");
        return ExitCode::from(2);
    }
    match conformance::run(Path::new(dir), rest.first().map(String::as_str), 5) {
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        Ok(report) => {
            for family in &report.families {
                println!(
                    "{:18} {:22} {:6} cases {:6} passed {:6} failed, set aside {:?}",
                    family.system,
                    family.family,
                    family.cases,
                    family.passed,
                    family.failed,
                    family.set_aside
                );
                for failure in &family.failures {
                    println!(
                        "    {} [{}]\n{}",
                        failure.case, failure.tag, failure.difference
                    );
                }
            }
            ExitCode::from(u8::from(!report.is_success()))
        }
    }
}
