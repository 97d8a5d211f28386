use super::*;

#[path = "../../../pinfold-daemon/tests/shared/config.rs"]
mod shared;

fn read(text: &str) -> Result<AgentConfig, String> {
    match AgentConfig::read("agent.yaml", text.as_bytes()) {
        Ok(read) => Ok(read.value),
        Err(findings) => Err(findings.to_string()),
    }
}

const EVERYTHING: &str = "
mode: mirror
nodeName: worker-1.rack.example
dialect: koordinator
kubelet: {configFile: /etc/pinfold/kubelet.yaml, rootDirectory: /srv/kubelet, endpoint: 'https://10.0.0.1:10250', caFile: /srv/ca.crt, tokenFile: /srv/token}
koordinator: {schedulerConfigFile: /etc/pinfold/scheduler.yaml, suppression: off, suppressionThreshold: 80}
stateDirectory: /srv/pinfold
runtime: {nriSocket: none, pluginIndex: '05', niceness: 3}
cgroups: {directWrites: never, systemdBus: none, migrateMemory: false, partitions: isolated, checkInterval: 1m30s}
devices: {managePlugins: true, pluginDirectory: /srv/plugins}
podResources: {socket: none, kubeletSocket: /srv/pr.sock}
api: {socket: none}
metrics: {listen: '[::]:1234'}
kubernetes: {kubeconfig: inCluster, publish: [numatopology], publishInterval: 500ms, otherWriters: repair, fingerprintMethod: all, nodeCondition: true, startupTaint: pinfold.dev/agent-not-ready:NoSchedule}
unknownContainers: reject
takeover: {disableQueryKubeletConfig: true, cpuSetAllocator: false}
";

#[test]
fn the_table_has_every_field_with_its_default_and_a_configuration_reads_back_unchanged() {
    shared::check(read, FIELDS, EVERYTHING, "kubelet:\n");
}

#[test]
fn errors_have_their_position_and_name_the_expected_value() {
    for (text, position, expected) in [
        ("mod: manage", "agent.yaml:1:1", "did you mean \"mode\"?"),
        ("mode: manege", "agent.yaml:1:7", "did you mean \"manage\"?"),
        (
            "api:\n  sokcet: /a",
            "agent.yaml:2:3",
            "did you mean \"socket\"?",
        ),
        ("nodeName: Worker", "agent.yaml:1:11", "lower-case letters"),
        ("nodeName: -a", "agent.yaml:1:11", "lower-case letters"),
        (
            "stateDirectory: here",
            "agent.yaml:1:17",
            "an absolute path",
        ),
        (
            "koordinator: {suppression: sometimes}",
            "agent.yaml:1:28",
            "true or false",
        ),
        (
            "koordinator: {suppressionThreshold: 101}",
            "agent.yaml:1:37",
            "1 to 100",
        ),
        ("runtime: {pluginIndex: 10}", "agent.yaml:1:24", "in quotes"),
        (
            "runtime: {pluginIndex: 'a1'}",
            "agent.yaml:1:24",
            "two digits",
        ),
        ("runtime: {niceness: 20}", "agent.yaml:1:21", "-20 to 19"),
        ("runtime: {niceness: low}", "agent.yaml:1:21", "-20 to 19"),
        (
            "runtime: {nriSocket: nri.sock}",
            "agent.yaml:1:22",
            "or none",
        ),
        (
            "cgroups: {checkInterval: 10}",
            "agent.yaml:1:26",
            "a duration",
        ),
        (
            "cgroups: {checkInterval: 0s}",
            "agent.yaml:1:26",
            "between 100ms",
        ),
        (
            "cgroups: {checkInterval: 25h}",
            "agent.yaml:1:26",
            "and 24h",
        ),
        (
            "cgroups: {migrateMemory: often}",
            "agent.yaml:1:26",
            "true or false",
        ),
        ("metrics: {listen: 9464}", "agent.yaml:1:19", "with a port"),
        (
            "kubernetes: {kubeconfig: incluster}",
            "agent.yaml:1:26",
            "inCluster",
        ),
        (
            "kubernetes: {publish: [v1]}",
            "agent.yaml:1:24",
            "one of v1alpha2",
        ),
        (
            "kubernetes: {publish: v1alpha2}",
            "agent.yaml:1:23",
            "a list",
        ),
        ("kubelet: /etc/x", "agent.yaml:1:10", "a mapping"),
        ("- mode", "agent.yaml:1:1", "a mapping"),
        (
            "mode: manage\n---\nmode: mirror",
            "agent.yaml:3:1",
            "one document",
        ),
        ("mode: manage\nmode: mirror", "agent.yaml:2:1", "twice"),
    ] {
        let message = read(text).expect_err(text);
        assert!(message.contains(position), "{text}: {message}");
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "mod: a\nstateDirectory: b\napi: {socket: c}";
    let message = read(text).expect_err("three errors");
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn only_mode_mirror_reads_the_kubelets_own_configuration() {
    let file = |text: &str| read(text).expect("a configuration").rules_file();
    assert_eq!(file(""), None);
    let own = Some(PathBuf::from("/var/lib/kubelet/config.yaml"));
    assert_eq!(file("mode: mirror"), own);
    let named = Some(PathBuf::from("/etc/rules.yaml"));
    assert_eq!(file("kubelet: {configFile: /etc/rules.yaml}"), named);
}

#[test]
fn fields_that_need_a_restart_are_listed() {
    let (old, new) = (AgentConfig::default(), read(EVERYTHING).expect("one"));
    assert_eq!(old.needs_restart(&old), Vec::<&str>::new());
    let named = old.needs_restart(&new);
    assert!(
        named.contains(&"api") && named.contains(&"mode"),
        "{named:?}"
    );
    let other = read("cgroups: {checkInterval: 1m}\nunknownContainers: reject").expect("one");
    assert_eq!(old.needs_restart(&other), Vec::<&str>::new());
}
