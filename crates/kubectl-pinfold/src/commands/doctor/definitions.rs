//! The definitions of reports: missing, not established, or of versions that drop what the agents write.

use serde_json::Value;

use super::evidence::Evidence;
use super::finding::{Finding, Severity};

/// A definition that Pinfold installs.
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// The version that carries everything.
    version: &'static str,
    /// A path of properties that the version's schema must have.
    field: &'static [&'static str],
    /// Whether the cluster needs it.
    is_required: bool,
}

/// The definitions, as in `deploy/crds`.
pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "noderesourcetopologies.topology.node.k8s.io",
        version: "v1alpha2",
        field: &["attributes"],
        is_required: true,
    },
    Definition {
        name: "numatopologies.nodeinfo.volcano.sh",
        version: "v1alpha1",
        field: &["spec", "podAllocations"],
        is_required: false,
    },
];

/// What to do about a definition.
const APPLY: &str = "kubectl apply --server-side -f deploy/crds, after checking that no other program needs its own";

/// Definitions that lose data of the agents.
pub(super) fn foreign(evidence: &Evidence) -> Vec<Finding> {
    let Some(definitions) = &evidence.definitions else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for own in DEFINITIONS {
        let problem = match definitions.get(own.name) {
            None if own.is_required => (
                Severity::Error,
                "is not installed: no agent can publish its report".to_owned(),
            ),
            None => continue,
            Some(definition) => match own.problem(definition) {
                Some(problem) => problem,
                None => continue,
            },
        };
        let (severity, problem) = problem;
        found.push(Finding::new(
            severity,
            format!("{} {problem}", own.name),
            APPLY,
        ));
    }
    found
}

impl Definition {
    /// The problem of the installed definition.
    fn problem(&self, definition: &Value) -> Option<(Severity, String)> {
        let conditions = definition["status"]["conditions"].as_array();
        let rejected = conditions
            .into_iter()
            .flatten()
            .find(|one| one["type"] == "Established" && one["status"] == "False");
        if rejected.is_some() {
            let problem = "is not established: the API server does not serve it";
            return Some((Severity::Error, problem.to_owned()));
        }
        let versions = definition["spec"]["versions"].as_array();
        let served = versions
            .into_iter()
            .flatten()
            .find(|one| one["name"] == self.version && one["served"] != false);
        let Some(served) = served else {
            let problem = format!(
                "does not serve {}: another program installed an older one",
                self.version
            );
            return Some((Severity::Warning, problem));
        };
        let schema = &served["schema"]["openAPIV3Schema"];
        (!keeps(schema, self.field)).then(|| {
            let problem = format!(
                "drops the field {} that the agents write: another program installed it",
                self.field.join(".")
            );
            (Severity::Warning, problem)
        })
    }
}

/// Whether the schema has the field, or keeps fields that it does not have.
fn keeps(schema: &Value, field: &[&str]) -> bool {
    match field {
        [] => true,
        [first, rest @ ..] => {
            let below = &schema["properties"][*first];
            match below.is_null() {
                true => schema["x-kubernetes-preserve-unknown-fields"] == true,
                false => keeps(below, rest),
            }
        }
    }
}
