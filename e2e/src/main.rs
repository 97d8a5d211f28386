//! End-to-end tests of Pinfold with real kernels and real programs: `cargo run -p e2e -- SUITE...`.

mod agent;
mod api;
mod browser;
mod cluster;
mod container_runtime;
mod containerd;
mod control_groups;
mod control_plane;
mod crashes;
mod crio;
mod devices;
mod emulated;
mod guest;
mod helm;
mod host;
mod install;
mod node;
mod nri;
mod numa;
mod page;
mod peers;
mod placement;
mod plugin;
mod pod_resources;
mod programs;
mod report;
mod runs;
mod topology;
mod transcript;

use std::process::ExitCode;

use report::{Report, Runs};

/// The suites in the order of `all`, which leaves out benchmarks and what takes too long for every change.
const SUITES: [(&str, Kind); 17] = [
    ("host", Kind::Test),
    ("numa", Kind::Test),
    ("nri", Kind::Test),
    ("devices", Kind::Test),
    ("page", Kind::Long),
    ("api", Kind::Test),
    ("helm", Kind::Test),
    ("agent", Kind::Test),
    ("cluster", Kind::Test),
    ("agent-guest", Kind::Test),
    ("node-long", Kind::Long),
    ("peers", Kind::Long),
    ("install", Kind::Long),
    ("agent-soak", Kind::Long),
    ("crio", Kind::Long),
    ("agent-bench", Kind::Bench),
    ("cluster-bench", Kind::Bench),
];

/// What a suite is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Test,
    /// A test that is no part of `all`.
    Long,
    Bench,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut report = Report::new(report::is_ci());
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["agent-inside", programs, ..] => {
            agent::inside(&mut report, programs.as_ref(), &words[2..]);
        }
        ["install-inside", prepared] => install::inside(&mut report, prepared.as_ref()),
        ["device-plugin", ..] => return ending(plugin::run(&words[1..])),
        ["pod-resources", socket] => return ending(pod_resources::print(socket.as_ref())),
        ["all"] => run_suites(&mut report, &all()),
        ref suites => run_suites(&mut report, suites),
    }
    report.finish()
}

/// The exit code of a program that is not a suite.
fn ending(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            report::say(format_args!("problem: {problem}"));
            ExitCode::FAILURE
        }
    }
}

/// Every suite that tests.
fn all() -> Vec<&'static str> {
    let tests = SUITES.iter().filter(|(_, kind)| *kind == Kind::Test);
    tests.map(|(name, _)| *name).collect()
}

fn run_suites(report: &mut Report, suites: &[&str]) {
    // Its emulated machine needs one CPU: with other suites to run, it boots first and is waited for
    // in its turn, the last.
    let beside = suites.len() > 1 && suites.contains(&"agent-guest");
    let mut guest = beside.then(agent::guest::start);
    for suite in suites {
        report.theme(suite, Runs::Must, |report| {
            match *suite {
                "host" => host::run(report),
                "numa" => numa::run(report),
                "nri" => nri::run(report),
                "devices" => devices::run(report),
                "page" => browser::run(report),
                "api" => api::run(report),
                "agent" => agent::run(report),
                "agent-guest" => match guest.take() {
                    Some(guest) => guest.finish(report),
                    None => agent::guest::run(report),
                },
                "node-long" => node::run(report),
                "agent-soak" => agent::soak(report),
                "crio" => crio::run(report),
                "agent-bench" => agent::bench(report),
                "helm" => helm::run(report),
                "install" => install::run(report),
                "cluster" => cluster::run(report),
                "peers" => peers::run(report),
                "cluster-bench" => cluster::bench(report),
                _ => {
                    let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
                    let names = names.join(", ");
                    return Err(format!("no such suite; there are all, {names}").into());
                }
            }
            Ok(())
        });
    }
}
