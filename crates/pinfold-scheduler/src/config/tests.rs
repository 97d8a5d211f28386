use super::*;

#[path = "../../../pinfold-daemon/tests/shared/config.rs"]
mod shared;

fn read(text: &str) -> Result<EngineConfig, String> {
    match EngineConfig::read("scheduler.yaml", text.as_bytes()) {
        Ok(read) => Ok(read.value),
        Err(findings) => Err(findings.to_string()),
    }
}

const EVERYTHING: &str = "
socket: /run/other.sock
metrics: {listen: none}
kubernetes: {kubeconfig: /etc/kubeconfig}
nodes: {withoutReport: pass, staleReport: pass, incompleteReport: pass}
reports: {staleAfter: 1s, countedAfter: 2s, bindingTimeout: 3s}
weights: {span: 0, dialect: 9, utilization: 8, distance: 7, fragmentation: 6, prefer: spread}
";

#[test]
fn the_table_has_every_field_with_its_default_and_a_configuration_reads_back_unchanged() {
    shared::check(read, FIELDS, EVERYTHING, "nodes:\n");
}

#[test]
fn errors_have_a_position_and_a_suggestion() {
    for (text, position, message) in [
        ("sockt: a", "scheduler.yaml:1:1", "did you mean \"socket\"?"),
        ("socket: here", "scheduler.yaml:1:9", "an absolute path"),
        (
            "kubernetes: {kubeconfig: none}",
            "scheduler.yaml:1:13",
            "inCluster",
        ),
        (
            "nodes: {staleReport: maybe}",
            "scheduler.yaml:1:22",
            "one of pass, reject",
        ),
        (
            "weights: {span: 101}",
            "scheduler.yaml:1:17",
            "from 0 to 100",
        ),
        (
            "weights: {span: -1}",
            "scheduler.yaml:1:17",
            "from 0 to 100",
        ),
        (
            "reports: {countedAfter: 1ms}",
            "scheduler.yaml:1:25",
            "between 100ms",
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(position), "{text}: {error}");
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn changed_fields_that_need_a_restart_are_named() {
    let (old, new) = (EngineConfig::default(), read(EVERYTHING).expect("one"));
    assert_eq!(old.needs_restart(&old), Vec::<&str>::new());
    assert!(old.needs_restart(&new).contains(&"socket"));
    let weights = read("weights: {span: 9}").expect("one");
    assert_eq!(old.needs_restart(&weights), Vec::<&str>::new());
}
