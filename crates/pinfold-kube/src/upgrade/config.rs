//! The configuration under another version: what the kubelet does not start with, and which defaults flip.

use std::collections::BTreeMap;

use pinfold_core::cpu::{CpuOptionError, CpuOptions, OptionGates};
use pinfold_core::fidelity::{Fidelity, KubeletVersion};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{CpuManagerPolicy, Settings};

use super::gates::{self, GateRefusal};
use super::{ConfigPlace, Flip, StartProblem, VersionChange};
use crate::diagnostic::{Diagnostics, WithWarnings};
use crate::kubelet_config::KubeletSettings;
use crate::manifest::field::FieldRef;
use crate::manifest::{self, Document};

const GATES: &str = "featureGates";
const MAX_NUMA_NODES: &str = "max-allowable-numa-nodes";

/// A kubelet's configuration file, and where each of its fields is.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    document: Document,
    settings: KubeletSettings,
}

/// A field that a version does not start with.
struct FieldProblem {
    /// Its path, one part per level.
    path: Vec<String>,
    problem: String,
    fix: String,
    /// The kubelet's words, if they are known.
    message: Option<String>,
}

impl ConfigFile {
    /// Reads a file with one kubelet configuration.
    ///
    /// # Errors
    /// With every error in the file that every version rejects.
    pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Self>, Diagnostics> {
        let settings = KubeletSettings::read(file, bytes, Fidelity::Exact)?;
        let documents = manifest::read(file, bytes)?;
        let document = documents.into_iter().next();
        let document = document.expect("the settings were read from the only object");
        Ok(WithWarnings {
            value: Self {
                document,
                settings: settings.value,
            },
            warnings: settings.warnings,
        })
    }

    /// The gates that it sets.
    pub(super) fn gates(&self) -> &BTreeMap<String, bool> {
        &self.settings.feature_gates
    }

    /// The gates that it sets and about which nothing is known.
    pub(super) fn other_gates(&self) -> Vec<&str> {
        let names = self.gates().keys().map(String::as_str);
        names.filter(|name| gates::named(name).is_none()).collect()
    }

    /// What the new version does not start with.
    pub(super) fn problems(&self, change: VersionChange) -> Vec<StartProblem> {
        let before = self.field_problems(change.from);
        let after = self.field_problems(change.to).into_iter();
        let found = after.map(|problem| {
            let is_same = |other: &FieldProblem| {
                other.path == problem.path && other.message == problem.message
            };
            let today = before.iter().any(is_same);
            problem.at(Some(self), today)
        });
        found.collect()
    }

    fn field_problems(&self, version: KubeletVersion) -> Vec<FieldProblem> {
        let mut found = self.gate_problems(version);
        // The amount of memory has no influence on options.
        let settings = self.settings.settings(0, Fidelity::of_kubelet(version));
        found.extend(option_problems(&settings, version));
        found.extend(other_problems(&self.document.root(), version));
        found
    }

    fn gate_problems(&self, version: KubeletVersion) -> Vec<FieldProblem> {
        let refused = gates::all().iter().filter_map(|gate| {
            let refusal = gate.refusal(version, self.gates())?;
            let name = gate.name;
            let (path, problem, fix) = match refusal {
                GateRefusal::Unknown => (
                    name,
                    format!("kubelet {version} does not know the gate {name} yet"),
                    "remove the line".to_owned(),
                ),
                GateRefusal::Removed => (
                    name,
                    format!(
                        "kubelet {version} has no gate {name} any more; always on: {}",
                        gate.about
                    ),
                    "remove the line".to_owned(),
                ),
                GateRefusal::Locked => (
                    name,
                    format!(
                        "the gate {name} is locked since it is stable; always on: {}",
                        gate.about
                    ),
                    "remove the line".to_owned(),
                ),
                GateRefusal::Depends(needs) => (
                    needs,
                    format!(
                        "the gate {name} is on in kubelet {version} and needs {needs}, which is off"
                    ),
                    format!("remove {needs}: false, or set {name}: false beside it"),
                ),
            };
            let message = Some(refusal.message(name));
            let path = vec![GATES.to_owned(), path.to_owned()];
            Some(FieldProblem {
                path,
                problem,
                fix,
                message,
            })
        });
        refused.collect()
    }

    /// Where a field is; `None` if the file does not have it.
    fn place(&self, path: &[String]) -> Option<ConfigPlace> {
        let mut field = self.document.root();
        for part in path {
            field = field.get(part)?;
        }
        Some(ConfigPlace {
            file: self.document.file().to_owned(),
            at: field.at(),
        })
    }
}

impl FieldProblem {
    fn at(self, config: Option<&ConfigFile>, today: bool) -> StartProblem {
        StartProblem {
            place: config.and_then(|config| config.place(&self.path)),
            field: self.path.join("."),
            problem: self.problem,
            fix: self.fix,
            message: self.message,
            today,
        }
    }
}

/// The options of a report that the new version does not start with. Where they are in the configuration is not known.
pub(super) fn problems_of_report(settings: &Settings, change: VersionChange) -> Vec<StartProblem> {
    let before = option_problems(settings, change.from);
    let after = option_problems(settings, change.to).into_iter();
    let found = after.map(|problem| {
        let today = before.iter().any(|other| other.path == problem.path);
        problem.at(None, today)
    });
    found.collect()
}

/// Options that a version does not have, or only with a gate that is off.
fn option_problems(settings: &Settings, version: KubeletVersion) -> Vec<FieldProblem> {
    let mut found = Vec::new();
    let gates = OptionGates {
        alpha: settings.alpha_cpu_options,
        beta: settings.beta_cpu_options,
        version,
    };
    let is_static = settings.cpu_policy == CpuManagerPolicy::Static;
    for (name, value) in settings.cpu_options.iter().filter(|_| is_static) {
        let alone = BTreeMap::from([(name.clone(), value.clone())]);
        let Err(error) = CpuOptions::parse(&alone, gates) else {
            continue;
        };
        let stage = |stage: &str, gate: &str| {
            (
                format!("{name} is {stage} in kubelet {version}, and the gate {gate} is off"),
                format!("set featureGates: {{{gate}: true}}, or remove the option"),
            )
        };
        let (problem, fix) = match &error {
            CpuOptionError::Unknown { .. } => (
                format!("kubelet {version} does not know the option {name}"),
                "remove the option".to_owned(),
            ),
            CpuOptionError::AlphaOff { .. } => stage("alpha", "CPUManagerPolicyAlphaOptions"),
            CpuOptionError::BetaOff { .. } => stage("beta", "CPUManagerPolicyBetaOptions"),
            // Rejected by every version.
            _ => continue,
        };
        found.push(FieldProblem {
            path: vec!["cpuManagerPolicyOptions".to_owned(), name.clone()],
            problem,
            fix,
            message: Some(error.to_string()),
        });
    }
    let limit = settings.topology_options.contains_key(MAX_NUMA_NODES);
    let aligns = settings.topology_policy != TopologyPolicy::None;
    if limit && aligns && !Fidelity::of_kubelet(version).knows_max_numa_nodes() {
        found.push(FieldProblem {
            path: vec![
                "topologyManagerPolicyOptions".to_owned(),
                MAX_NUMA_NODES.to_owned(),
            ],
            problem: format!("kubelet {version} does not know the option {MAX_NUMA_NODES}"),
            fix: "remove the option".to_owned(),
            message: Some(format!(
                "unknown Topology Manager Policy option: \"{MAX_NUMA_NODES}\""
            )),
        });
    }
    found
}

/// The other fields whose rules changed.
fn other_problems(config: &FieldRef<'_>, version: KubeletVersion) -> Vec<FieldProblem> {
    let since = |minor| version >= KubeletVersion::minor(minor);
    let mut found = Vec::new();
    let mut add = |field: &str, problem: String, fix: &str| {
        found.push(FieldProblem {
            path: vec![field.to_owned()],
            problem,
            fix: fix.to_owned(),
            message: None,
        });
    };
    let run_once = config.get("runOnce").and_then(|field| field.plain_bool());
    if run_once == Some(true) && since(32) {
        add(
            "runOnce",
            format!("kubelet {version} does not run once and end"),
            "remove the line",
        );
    }
    const ENFORCE: &str = "enforceNodeAllocatable";
    let enforced = config.get(ENFORCE).and_then(|field| field.list_items());
    let enforced = enforced.unwrap_or_default();
    let enforced: Vec<&str> = enforced.iter().filter_map(FieldRef::as_text).collect();
    let is_repeated = |word: &&str| enforced.iter().filter(|other| *other == word).count() > 1;
    if let Some(word) = enforced.iter().copied().find(is_repeated)
        && since(31)
    {
        add(ENFORCE, format!("{word} is listed twice"), "list it once");
    }
    for word in enforced
        .iter()
        .filter(|word| word.ends_with("-compressible"))
    {
        let plain = word.trim_end_matches("-compressible");
        if !since(32) {
            add(
                ENFORCE,
                format!("kubelet {version} does not know {word}"),
                "remove the word",
            );
        } else if enforced.contains(&plain) {
            add(
                ENFORCE,
                format!("{word} is listed beside {plain}"),
                "leave one of them",
            );
        }
    }
    found
}

/// The gates and defaults that differ between the versions under a configuration.
pub(super) fn flips(config: Option<&ConfigFile>, change: VersionChange) -> Vec<Flip> {
    let none = BTreeMap::new();
    let set = config.map_or(&none, ConfigFile::gates);
    let flipped = gates::all().iter().filter_map(|gate| {
        let on = |version| gates::is_on(gate.name, version, set);
        let (before, after) = (on(change.from), on(change.to));
        // A gate that keeps the kubelet from starting is reported as such.
        let refused = set.contains_key(gate.name) && gate.refusal(change.to, set).is_some();
        (before != after && !refused).then_some(Flip {
            name: gate.name,
            is_gate: true,
            about: gate.about,
            before,
            after,
        })
    });
    let mut found: Vec<Flip> = flipped.collect();
    const CGROUPS: &str = "failCgroupV1";
    let fails = |version| version >= KubeletVersion::minor(35);
    let (before, after) = (fails(change.from), fails(change.to));
    let is_set = config.is_some_and(|config| config.document.root().get(CGROUPS).is_some());
    if before != after && !is_set {
        found.push(Flip {
            name: CGROUPS,
            is_gate: false,
            about: "a kubelet on cgroup v1 does not start",
            before,
            after,
        });
    }
    found
}
