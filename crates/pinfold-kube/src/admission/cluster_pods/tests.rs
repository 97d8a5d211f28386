use pinfold_cluster::koordinator::amounts::Amounts;

use super::*;
use crate::manifest;
use crate::node::NodeObject;
use crate::scheduling_constraints::NodeConstraints;

const SPREAD: &str = "node(s) didn't match pod topology spread constraints";
const LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// A cluster of four nodes: two in zone a, one in zone b, one without a zone.
struct TestCluster {
    nodes: BTreeMap<NodeName, AdmissionNode>,
    pods: ClusterPods,
    added: u32,
}

fn node(name: &str, labels: &str, spec: &str) -> AdmissionNode {
    let text = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{host: {name}, {labels}}}}}, \
         spec: {spec}, status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 10}}}}}}"
    );
    let documents = manifest::read("test", text.as_bytes()).expect("objects");
    let read = NodeObject::read(&documents[0]).expect("a node").value;
    AdmissionNode::new(
        Some(NodeConstraints::of(&read)),
        Amounts::of(&read.allocatable),
    )
}

/// A pod with these labels, in a namespace, with more of a spec.
fn pod(namespace: &str, labels: &str, spec: &str) -> AdmissionRequest {
    let text = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: {namespace}, labels: {{{labels}}}}}, \
         spec: {{containers: [{{name: c}}], {spec}}}}}"
    );
    let read = crate::pod::read("test", text.as_bytes()).expect("a pod");
    AdmissionRequest::of(&read.value[0])
}

fn terms(kind: &str, term: &str) -> String {
    format!("affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}")
}

fn anti(term: &str) -> String {
    terms("podAntiAffinity", term)
}

fn spread(constraint: &str) -> String {
    format!("topologySpreadConstraints: [{{whenUnsatisfiable: DoNotSchedule, {constraint}}}]")
}

impl TestCluster {
    fn new() -> Self {
        let nodes = [
            ("a1", node("a1", "zone: a", "{}")),
            ("a2", node("a2", "zone: a", "{}")),
            ("b1", node("b1", "zone: b", "{}")),
            ("n1", node("n1", "", "{}")),
        ];
        let red = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
        Self {
            nodes: nodes.map(|(name, node)| (name.into(), node)).into(),
            pods: ClusterPods::new(BTreeMap::from([
                ("red".to_owned(), red),
                ("default".to_owned(), Labels::new()),
            ])),
            added: 0,
        }
    }

    fn add(&mut self, node: &str, pod: &AdmissionRequest) {
        self.added += 1;
        let uid = PodUid::from(format!("uid-{}", self.added).as_str());
        self.pods.add(&node.into(), &uid, pod);
    }

    /// The reason of each node, in the order a1, a2, b1, n1; empty if it fits.
    fn reasons(&self, pod: &AdmissionRequest) -> Vec<&'static str> {
        let filters = self.pods.prepare(pod, &self.nodes);
        let reason = |node: &AdmissionNode| {
            let mismatch = filters.mismatch(node);
            mismatch.map_or("", |mismatch| mismatch.scheduler_text())
        };
        self.nodes.values().map(reason).collect()
    }
}

#[test]
fn a_pod_is_spread_over_the_domains_of_nodes_that_have_every_key() {
    let mut cluster = TestCluster::new();
    let by_zone = spread("maxSkew: 1, topologyKey: zone, labelSelector: {matchLabels: {app: web}}");
    let web = pod("default", "app: web", &by_zone);
    assert_eq!(cluster.reasons(&web), ["", "", "", LABEL]);
    cluster.add("a1", &web);
    assert_eq!(cluster.reasons(&web), [SPREAD, SPREAD, "", LABEL]);
    // A pod that its own constraint does not select adds nothing.
    let other = pod("default", "app: db", &by_zone);
    assert_eq!(cluster.reasons(&other), ["", "", "", LABEL]);
    // Pods of other namespaces, pods that end, and pods on nodes without the key do not count.
    let mut ending = web.clone();
    let mut class = PodClass::clone(&ending.class);
    class.terminating = true;
    ending.class = Arc::new(class);
    cluster.add("b1", &ending);
    cluster.add("b1", &pod("red", "app: web", ""));
    cluster.add("n1", &web);
    assert_eq!(cluster.reasons(&web), [SPREAD, SPREAD, "", LABEL]);
}

#[test]
fn fewer_domains_than_min_domains_have_no_pods_at_least() {
    let mut cluster = TestCluster::new();
    let web = pod("default", "app: web", "");
    for node in ["a1", "b1"] {
        cluster.add(node, &web);
    }
    let constraint = |domains: u32| {
        let text = format!(
            "maxSkew: 1, minDomains: {domains}, topologyKey: zone, labelSelector: {{matchLabels: {{app: web}}}}"
        );
        pod("default", "app: web", &spread(&text))
    };
    assert_eq!(cluster.reasons(&constraint(2)), ["", "", "", LABEL]);
    assert_eq!(
        cluster.reasons(&constraint(3)),
        [SPREAD, SPREAD, SPREAD, LABEL]
    );
}

#[test]
fn a_selector_of_everything_counts_no_pod_and_a_missing_one_not_even_its_own() {
    let mut cluster = TestCluster::new();
    cluster.add("a1", &pod("default", "app: web", ""));
    let everything = spread("maxSkew: 1, topologyKey: zone, labelSelector: {}");
    assert_eq!(
        cluster.reasons(&pod("default", "", &everything)),
        ["", "", "", LABEL]
    );
    let nothing = spread("maxSkew: 1, topologyKey: zone");
    assert_eq!(
        cluster.reasons(&pod("default", "", &nothing)),
        ["", "", "", LABEL]
    );
}

#[test]
fn policies_include_nodes_in_the_spread() {
    let mut cluster = TestCluster::new();
    let taint = "{taints: [{key: dedicated, effect: NoSchedule}]}";
    cluster
        .nodes
        .insert("b1".into(), node("b1", "zone: b", taint));
    cluster.add("a1", &pod("default", "app: web", ""));
    let web = |more: &str, spec: &str| {
        let text = format!(
            "maxSkew: 1, topologyKey: zone, labelSelector: {{matchLabels: {{app: web}}}}{more}"
        );
        pod("default", "app: web", &format!("{}{spec}", spread(&text)))
    };
    // The tainted node is a domain without pods unless the policy leaves it out.
    assert_eq!(cluster.reasons(&web("", "")), [SPREAD, SPREAD, "", LABEL]);
    let honors = web(", nodeTaintsPolicy: Honor", "");
    assert_eq!(cluster.reasons(&honors), ["", "", "", LABEL]);
    // The selector leaves it out unless the policy ignores it.
    let zone = ", nodeSelector: {zone: a}";
    assert_eq!(cluster.reasons(&web("", zone)), ["", "", "", LABEL]);
    let ignores = web(", nodeAffinityPolicy: Ignore", zone);
    assert_eq!(cluster.reasons(&ignores), [SPREAD, SPREAD, "", LABEL]);
}

#[test]
fn label_keys_are_part_of_the_selectors() {
    let mut cluster = TestCluster::new();
    cluster.add("a1", &pod("default", "app: web, version: one", ""));
    let selector = "labelSelector: {matchLabels: {app: web}}";
    let text = format!("maxSkew: 1, topologyKey: zone, matchLabelKeys: [version], {selector}");
    let other = pod("default", "app: web, version: two", &spread(&text));
    assert_eq!(cluster.reasons(&other), ["", "", "", LABEL]);
    let same = pod("default", "app: web, version: one", &spread(&text));
    assert_eq!(cluster.reasons(&same), [SPREAD, SPREAD, "", LABEL]);
    let text = format!("{{topologyKey: host, mismatchLabelKeys: [version], {selector}}}");
    let apart = pod("default", "app: web, version: two", &anti(&text));
    assert_eq!(cluster.reasons(&apart), [ANTI, "", "", ""]);
    let apart = pod("default", "app: web, version: one", &anti(&text));
    assert_eq!(cluster.reasons(&apart), ["", "", "", ""]);
}

#[test]
fn affinity_needs_a_pod_in_the_domain_that_meets_all_terms() {
    let mut cluster = TestCluster::new();
    let near = |key: &str, app: &str| {
        format!("{{topologyKey: {key}, labelSelector: {{matchLabels: {{app: {app}}}}}}}")
    };
    let web = pod(
        "default",
        "app: web",
        &terms("podAffinity", &near("zone", "db")),
    );
    assert_eq!(cluster.reasons(&web), [AFFINITY; 4]);
    cluster.add("a1", &pod("default", "app: db", ""));
    assert_eq!(cluster.reasons(&web), ["", "", AFFINITY, AFFINITY]);
    let both = format!("{}, {}", near("zone", "db"), near("host", "db"));
    let both = pod("default", "app: web", &terms("podAffinity", &both));
    assert_eq!(cluster.reasons(&both), ["", AFFINITY, AFFINITY, AFFINITY]);
}

#[test]
fn the_first_of_pods_that_want_each_other_may_go_anywhere_with_the_key() {
    let mut cluster = TestCluster::new();
    let term = "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}";
    let web = pod("default", "app: web", &terms("podAffinity", term));
    assert_eq!(cluster.reasons(&web), ["", "", "", AFFINITY]);
    cluster.add("b1", &web);
    assert_eq!(cluster.reasons(&web), [AFFINITY, AFFINITY, "", AFFINITY]);
    // A pod that does not meet its own terms is no first one.
    let db = pod("red", "app: db", &terms("podAffinity", term));
    assert_eq!(cluster.reasons(&db), [AFFINITY; 4]);
}

#[test]
fn anti_affinity_keeps_both_pods_apart() {
    let mut cluster = TestCluster::new();
    let term = "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}";
    let apart = pod("default", "app: lonely", &anti(term));
    cluster.add("a1", &pod("default", "app: web", ""));
    assert_eq!(cluster.reasons(&apart), [ANTI, ANTI, "", ""]);
    cluster.add("b1", &apart);
    // The pod without terms may not go where the other one does not want it.
    let web = pod("default", "app: web", "");
    assert_eq!(cluster.reasons(&web), ["", "", EXISTING, ""]);
    let uid = PodUid::from("uid-2");
    cluster.pods.remove(&uid);
    assert_eq!(cluster.reasons(&web), [""; 4]);
}

#[test]
fn namespaces_are_named_selected_or_the_pods_own() {
    let web = pod("red", "app: web", "");
    for (more, reason) in [
        ("", ""),
        (", namespaces: [red]", ANTI),
        (", namespaceSelector: {}", ANTI),
        (", namespaceSelector: {matchLabels: {team: red}}", ANTI),
        (", namespaceSelector: {matchLabels: {team: blue}}", ""),
        // kube-scheduler compares the selector with an empty set of labels, too.
        (
            ", namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}",
            ANTI,
        ),
    ] {
        let mut cluster = TestCluster::new();
        cluster.add("b1", &web);
        let term =
            format!("{{topologyKey: host, labelSelector: {{matchLabels: {{app: web}}}}{more}}}");
        let apart = pod("default", "app: lonely", &anti(&term));
        assert_eq!(cluster.reasons(&apart), ["", "", reason, ""], "{more}");
    }
    // The terms of existing pods are compared with the labels of the new pod's namespace.
    let mut cluster = TestCluster::new();
    let none = "namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}";
    let term =
        format!("{{topologyKey: host, labelSelector: {{matchLabels: {{app: web}}}}, {none}}}");
    cluster.add("b1", &pod("default", "app: lonely", &anti(&term)));
    assert_eq!(cluster.reasons(&web), [""; 4]);
    let own = pod("default", "app: web", "");
    assert_eq!(cluster.reasons(&own), ["", "", EXISTING, ""]);
}

#[test]
fn other_pods_are_asked_last() {
    let mut cluster = TestCluster::new();
    let term = "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}";
    cluster.add("a1", &pod("default", "app: web", ""));
    let spec = "overhead: {cpu: 5}";
    let wide = pod("default", "app: wide", &format!("{}, {spec}", anti(term)));
    let filters = cluster.pods.prepare(&wide, &cluster.nodes);
    let node = &cluster.nodes[&NodeName::from("a1")];
    assert_eq!(
        filters.first_mismatch(node, &wide),
        None,
        "its CPUs do not suffice"
    );
    let narrow = pod("default", "app: narrow", &anti(term));
    let filters = cluster.pods.prepare(&narrow, &cluster.nodes);
    let found = filters.first_mismatch(node, &narrow);
    assert_eq!(found, Some(NodeMismatch::PodAntiAffinity));
}
