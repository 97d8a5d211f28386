//! `docs/node-agent.md` lists every field of the configuration and every metric.

#[path = "../../pinfold-daemon/tests/shared/documentation.rs"]
mod shared;

#[test]
fn the_documented_fields_and_metrics_are_those_of_the_program() {
    shared::check(
        "node-agent.md",
        pinfold_agent::config::FIELDS,
        pinfold_agent::metrics::ALL,
    );
}
