//! Programs that pin CPUs: one for each node.

use std::collections::BTreeMap;

use super::evidence::{Evidence, PodFacts};
use super::finding::{Finding, Grouped, Severity};

/// The kubelet as a program that pins.
const KUBELET: &str = "the kubelet (cpuManagerPolicy: static)";
/// The agent as a program that pins.
const AGENT: &str = "pinfold-agent (mode manage)";
/// Koordinator's agent, which works beside the kubelet's static policy.
const KOORDLET: &str = "koordlet";
/// The last part of the names of images, and the program that pins CPUs.
const PROGRAMS: [(&str, &str); 5] = [
    ("koordlet", KOORDLET),
    (
        "nri-resource-policy-topology-aware",
        "nri-plugins topology-aware",
    ),
    ("nri-resource-policy-balloons", "nri-plugins balloons"),
    ("dra-driver-cpu", "dra-driver-cpu"),
    ("dracpu", "dra-driver-cpu"),
];

/// The program of an image that pins CPUs.
fn program(image: &str) -> Option<&'static str> {
    let path = image.split('@').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    let found = PROGRAMS.iter().find(|(own, _)| *own == name);
    found.map(|(_, program)| *program)
}

fn programs(pod: &PodFacts) -> impl Iterator<Item = &'static str> {
    pod.images.iter().filter_map(|image| program(image))
}

/// Nodes where two programs write the CPUs of containers.
pub(super) fn two_managers(evidence: &Evidence) -> Vec<Finding> {
    let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, report) in &evidence.reports {
        let mut own = Vec::new();
        if report.is_managed {
            own.push(AGENT);
        }
        let policy = match report.is_managed {
            true => report.kubelet_cpu_policy.as_str(),
            false => report
                .cpu_policy
                .as_deref()
                .unwrap_or(&report.kubelet_cpu_policy),
        };
        if policy == "static" {
            own.push(KUBELET);
        }
        by_node.insert(node, own);
    }
    for pod in evidence.pods.iter().filter(|pod| pod.phase != "Failed") {
        let Some(node) = pod.node.as_deref() else {
            continue;
        };
        for program in programs(pod) {
            let own = by_node.entry(node).or_default();
            if !own.contains(&program) {
                own.push(program);
            }
        }
    }
    let mut found = Grouped::default();
    for (node, mut own) in by_node {
        own.sort_unstable();
        // koordlet leaves the CPUs of pods that the kubelet pins alone.
        if own.len() < 2 || own == [KOORDLET, KUBELET] {
            continue;
        }
        let remedy = match own == [AGENT, KUBELET] {
            true => {
                "set the kubelet's cpuManagerPolicy to none as docs/migrate/kubelet.md says, or the agent to mode mirror"
            }
            false => {
                "leave one of them on the node: docs/migrate has the way from each to Pinfold and back"
            }
        };
        let problem = format!(
            "{} write the CPUs of the same containers",
            own.join(" and ")
        );
        found.node(Severity::Error, node, problem, remedy);
    }
    found.finish()
}

/// Nodes that are being taken over: the kubelet pinned some pods, the agent the others.
pub(super) fn takeover(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (node, report) in &evidence.reports {
        if report.is_managed && report.kubelet_pods > 0 && report.kubelet_cpu_policy != "static" {
            found.node(
                Severity::Info,
                node,
                "pods that the kubelet pinned still run; they keep their CPUs until they end"
                    .to_owned(),
                "",
            );
        }
    }
    found.finish()
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn a_program_is_known_by_the_last_part_of_its_image() {
        for (image, expected) in [
            (
                "registry.example.com/koordinator-sh/koordlet:v1.8.0",
                Some("koordlet"),
            ),
            ("example.com:5000/koordlet@sha256:0a", Some("koordlet")),
            (
                "registry.example/x/nri-resource-policy-balloons",
                Some("nri-plugins balloons"),
            ),
            ("example.com/koordlet-tools:1", None),
        ] {
            assert_eq!(program(image), expected, "{image}");
        }
    }
}
