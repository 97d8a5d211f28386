use super::*;

#[path = "../../../pinfold-daemon/tests/shared/config.rs"]
mod shared;

fn read(text: &str) -> Result<ExtenderConfig, String> {
    match ExtenderConfig::read("scheduler.yaml", text.as_bytes()) {
        Ok(read) => Ok(read.value),
        Err(findings) => Err(findings.to_string()),
    }
}

const EVERYTHING: &str = "
listen: '[::]:1'
tls: {certificate: /a/tls.crt, key: /a/tls.key, clientCA: /a/ca.crt}
metrics: {listen: none}
kubernetes: {kubeconfig: /etc/kubeconfig}
leader: {elect: false, namespace: other, name: lease, identity: me}
nodes: {withoutReport: reject, staleReport: pass, incompleteReport: pass}
reports: {staleAfter: 1s, countedAfter: 2s, bindingTimeout: 3s}
weights: {span: 0, dialect: 9, utilization: 8, distance: 7, fragmentation: 6, prefer: spread}
";

#[test]
fn the_table_has_every_field_with_its_default_and_a_configuration_reads_back_unchanged() {
    shared::check(read, FIELDS, EVERYTHING, "leader:\n");
}

#[test]
fn errors_have_a_position_and_a_suggestion() {
    for (text, position, message) in [
        ("lisen: a", "scheduler.yaml:1:1", "did you mean \"listen\"?"),
        ("listen: none", "scheduler.yaml:1:9", "an address"),
        (
            "tls: {key: /a}",
            "scheduler.yaml:1:6",
            "both certificate and key",
        ),
        ("tls: {clientCA: /a}", "scheduler.yaml:1:6", "a certificate"),
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
        (
            "leader: {namespace: A}",
            "scheduler.yaml:1:21",
            "lower case letters",
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(position), "{text}: {error}");
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn changed_fields_that_need_a_restart_are_named() {
    let (old, new) = (ExtenderConfig::default(), read(EVERYTHING).expect("one"));
    assert_eq!(old.needs_restart(&old), Vec::<&str>::new());
    assert!(old.needs_restart(&new).contains(&"listen"));
    let weights = read("weights: {span: 9}").expect("one");
    assert_eq!(old.needs_restart(&weights), Vec::<&str>::new());
}
