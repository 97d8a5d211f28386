use super::*;

fn read(text: &str) -> Result<AgentConfig, String> {
    match AgentConfig::read("agent.yaml", text.as_bytes()) {
        Ok(read) => Ok(read.value),
        Err(findings) => Err(findings.to_string()),
    }
}

const EVERYTHING: &str = "
mode: mirror
node: worker-1.rack.example
dialect: koordinator
kubelet: {config: /etc/pinfold/kubelet.yaml, root: /srv/kubelet, endpoint: 'https://10.0.0.1:10250', authority: /srv/ca.crt, token: /srv/token}
koordinator: {scheduler: /etc/pinfold/scheduler.yaml}
state: /srv/pinfold
runtime: {nri: none, index: '05', niceness: 3}
cgroups: {direct: never, migrateMemory: false, partitions: isolated, checkEvery: 1m30s}
devices: {manage: true, directory: /srv/plugins}
podResources: {serve: none, kubelet: /srv/pr.sock}
api: {socket: none}
metrics: {listen: '[::]:1234'}
kubernetes: {kubeconfig: inCluster, publish: [numatopology], every: 500ms}
unknownContainers: reject
takeover: {disableQueryKubeletConfig: true, cpuSetAllocator: false}
";

#[test]
fn an_empty_file_is_a_whole_configuration() {
    for text in ["", "\n# nothing\n", "{}", "kubelet:\n"] {
        assert_eq!(read(text), Ok(AgentConfig::default()), "{text:?}");
    }
}

#[test]
fn every_default_of_the_table_is_the_default_of_its_field() {
    for field in FIELDS {
        let (section, name) = field.name.split_once('.').unwrap_or(("", field.name));
        let text = match section {
            "" => format!("{name}: {}", field.default),
            _ => format!("{section}: {{{name}: {}}}", field.default),
        };
        assert_eq!(read(&text), Ok(AgentConfig::default()), "{text}");
    }
}

#[test]
fn every_field_of_the_table_changes_something() {
    let config = read(EVERYTHING).expect("a configuration");
    let whole = serde_json::to_value(&config).expect("JSON");
    let default = serde_json::to_value(AgentConfig::default()).expect("JSON");
    for field in FIELDS {
        let path = format!("/{}", field.name.replace('.', "/"));
        let found = whole.pointer(&path);
        assert!(found.is_some(), "{}", field.name);
        assert_ne!(found, default.pointer(&path), "{}", field.name);
    }
}

#[test]
fn a_configuration_reads_back_as_itself() {
    for config in [read(EVERYTHING), read("")] {
        let config = config.expect("a configuration");
        // JSON is YAML.
        let written = serde_json::to_string(&config).expect("JSON");
        assert_eq!(read(&written), Ok(config), "{written}");
    }
}

#[test]
fn mistakes_are_told_with_their_place_and_what_was_meant() {
    for (text, place, words) in [
        ("mod: manage", "agent.yaml:1:1", "did you mean \"mode\"?"),
        ("mode: manege", "agent.yaml:1:7", "did you mean \"manage\"?"),
        (
            "api:\n  sokcet: /a",
            "agent.yaml:2:3",
            "did you mean \"socket\"?",
        ),
        ("node: Worker", "agent.yaml:1:7", "small letters"),
        ("node: -a", "agent.yaml:1:7", "small letters"),
        ("state: here", "agent.yaml:1:8", "an absolute path"),
        ("runtime: {index: 10}", "agent.yaml:1:18", "in quotes"),
        ("runtime: {index: 'a1'}", "agent.yaml:1:18", "two digits"),
        ("runtime: {niceness: 20}", "agent.yaml:1:21", "-20 to 19"),
        ("runtime: {niceness: low}", "agent.yaml:1:21", "-20 to 19"),
        ("runtime: {nri: nri.sock}", "agent.yaml:1:16", "or none"),
        ("cgroups: {checkEvery: 10}", "agent.yaml:1:23", "a duration"),
        (
            "cgroups: {checkEvery: 0s}",
            "agent.yaml:1:23",
            "between 100ms",
        ),
        ("cgroups: {checkEvery: 25h}", "agent.yaml:1:23", "and 24h"),
        (
            "cgroups: {migrateMemory: often}",
            "agent.yaml:1:26",
            "true or false",
        ),
        (
            "metrics: {listen: 9464}",
            "agent.yaml:1:19",
            "with its port",
        ),
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
        let told = read(text).expect_err(text);
        assert!(told.contains(place), "{text}: {told}");
        assert!(told.contains(words), "{text}: {told}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let told = read("mod: a\nstate: b\napi: {socket: c}").expect_err("three mistakes");
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn only_a_mirror_takes_its_rules_from_the_kubelet() {
    let file = |text: &str| read(text).expect("a configuration").rules_file();
    assert_eq!(file(""), None);
    let own = Some(PathBuf::from("/var/lib/kubelet/config.yaml"));
    assert_eq!(file("mode: mirror"), own);
    let named = Some(PathBuf::from("/etc/rules.yaml"));
    assert_eq!(file("kubelet: {config: /etc/rules.yaml}"), named);
}

#[test]
fn what_needs_a_restart_is_named() {
    let (old, new) = (AgentConfig::default(), read(EVERYTHING).expect("one"));
    assert_eq!(old.needs_restart(&old), Vec::<&str>::new());
    let named = old.needs_restart(&new);
    assert!(
        named.contains(&"api") && named.contains(&"mode"),
        "{named:?}"
    );
    let other = read("cgroups: {checkEvery: 1m}\nunknownContainers: reject").expect("one");
    assert_eq!(old.needs_restart(&other), Vec::<&str>::new());
}
