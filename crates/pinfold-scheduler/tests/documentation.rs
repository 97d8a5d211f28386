//! `docs/scheduler.md` lists every field of the configuration and every metric.

#[path = "../../pinfold-daemon/tests/shared/documentation.rs"]
mod shared;

#[test]
fn the_documented_fields_and_metrics_are_those_of_the_program() {
    shared::check_fields("scheduler.md", pinfold_scheduler::config::FIELDS);
    shared::check_metrics("scheduler.md", pinfold_scheduler::metrics::ALL);
}
