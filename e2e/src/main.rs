//! End-to-end tests of Pinfold with real kernels and real programs: `cargo run -p e2e -- SUITE...`.

mod agent;
mod api;
mod cluster;
mod containerd;
mod control_groups;
mod control_plane;
mod crashes;
mod devices;
mod emulated;
mod guest;
mod helm;
mod host;
mod nri;
mod numa;
mod page;
mod placement;
mod pod_resources;
mod programs;
mod report;
mod runs;
mod topology;
mod transcript;

use std::process::ExitCode;

use report::Report;

/// What can be run.
const SUITES: [&str; 11] = [
    "host",
    "numa",
    "nri",
    "devices",
    "api",
    "agent",
    "agent-guest",
    "agent-bench",
    "helm",
    "cluster",
    "cluster-bench",
];

fn main() -> ExitCode {
    let suites: Vec<String> = std::env::args().skip(1).collect();
    let mut report = Report::default();
    if let [inside, programs, options @ ..] = suites.as_slice()
        && inside == "agent-inside"
    {
        agent::inside(&mut report, programs.as_ref(), options);
        return report.finish();
    }
    if let [word, socket] = suites.as_slice()
        && word == "pod-resources"
    {
        return match pod_resources::print(socket.as_ref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                report::say(format_args!("problem: {problem}"));
                ExitCode::FAILURE
            }
        };
    }
    // Its guest needs one CPU: with others to run, it begins first and is waited for in its turn.
    let beside = suites.len() > 1 && suites.iter().any(|suite| suite == "agent-guest");
    let mut guest = beside.then(agent::guest::start);
    for suite in &suites {
        match suite.as_str() {
            "host" => host::run(&mut report),
            "numa" => numa::run(&mut report),
            "nri" => nri::run(&mut report),
            "devices" => devices::run(&mut report),
            "api" => api::run(&mut report),
            "agent" => agent::run(&mut report),
            "agent-guest" => match guest.take() {
                Some(guest) => guest.finish(&mut report),
                None => agent::guest::run(&mut report),
            },
            "agent-bench" => agent::bench(&mut report),
            "helm" => helm::run(&mut report),
            "cluster" => cluster::run(&mut report),
            "cluster-bench" => cluster::bench(&mut report),
            other => report.check(
                other,
                Err(format!("no such suite; there are {}", SUITES.join(", "))),
            ),
        }
    }
    report.finish()
}
