//! [`Question`]: everything that the left side of the playground says, as one JSON object.
//!
//! Nothing in it names a file of this computer: machines, configurations and pods come with their content.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pinfold_core::decision::ResourceManager;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::remedy::RequestChange;
use pinfold_core::settings::TopologyScope;
use pinfold_kube::decider::Decider;
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_kube::pod::{self, PodObject};
use pinfold_terminal::DeciderArg;
use serde::{Deserialize, Serialize};

use super::findings::{Finding, Findings, Part};
use crate::admission::remedies;
use crate::args::{MachineArg, NodeArgs};
use crate::input::{self, Source};
use crate::node::NodeFiles;
use crate::script::{self, ScriptPod};
use crate::simulation::SimulationStep;

/// The most pods of a question. `pinfold simulate` takes more.
const MOST_PODS: usize = 2_000;
/// The most steps of a question.
const MOST_STEPS: usize = 10_000;
/// The name of the configuration in messages.
const CONFIG: &str = "kubelet.yaml";
/// The name of the steps in messages.
const STEPS: &str = "steps.yaml";

/// A question of the playground.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Question {
    /// Who decides; empty for the newest kubelet.
    #[serde(rename = "as")]
    pub(crate) decider: String,
    /// The machine: a preset, a description, or `this`.
    pub(crate) machine: String,
    /// A file that describes the machine instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine_file: Option<MachineFile>,
    /// The KubeletConfiguration; empty for the built-in settings.
    pub(crate) config: String,
    /// The topology policy and scope instead of the configuration's; empty for those.
    pub(crate) policy: String,
    pub(crate) scope: String,
    /// Options of the CPU and topology manager that are off.
    pub(crate) options_off: Vec<String>,
    /// One line `RESOURCE=DEVICES` each, as for `--device`.
    pub(crate) devices: Vec<String>,
    /// Files with pods.
    pub(crate) pods: Vec<PodText>,
    /// A script; empty to add every pod once.
    pub(crate) steps: String,
    /// Whether the pods are bound already, so that kube-scheduler is not asked.
    pub(crate) bound: bool,
    /// Other amounts than the files say.
    pub(crate) changes: Vec<AmountOfPod>,
}

/// A machine's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    pub(crate) name: String,
    /// The content in base64: recordings are compressed.
    pub(crate) base64: String,
}

/// A file with pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodText {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Another amount of a resource of a pod, as a remedy proposes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AmountOfPod {
    /// The pod as it is printed.
    pub(crate) pod: String,
    /// The container; none for the pod as a whole.
    pub(crate) container: Option<String>,
    pub(crate) resource: String,
    pub(crate) manager: Manager,
    /// CPUs, bytes or devices.
    pub(crate) to: u64,
}

/// The manager of a resource, as JSON has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Manager {
    Cpu,
    Memory,
    Device,
}

/// The pods and steps of a question.
pub(crate) struct QuestionPods {
    pub(crate) objects: Vec<PodObject>,
    /// Warnings about the files.
    pub(crate) warnings: Vec<Finding>,
}

impl Question {
    /// Reads a question.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Findings> {
        serde_json::from_slice(body)
            .map_err(|error| Findings::one(Part::Question, format!("not a question: {error}")))
    }

    /// Who decides.
    pub(crate) fn decider(&self) -> Result<Decider, Findings> {
        match self.decider.as_str() {
            "" => Ok(Decider::default()),
            name => name
                .parse()
                .map_err(|error| Findings::one(Part::Question, format!("{error}"))),
        }
    }

    /// The node that the question describes.
    pub(crate) fn node(&self) -> Result<NodeFiles, Findings> {
        let bad = |error: &dyn std::fmt::Display| Findings::one(Part::Question, error.to_string());
        let policy = match self.policy.as_str() {
            "" => None,
            name => Some(
                name.parse::<TopologyPolicy>()
                    .map_err(|error| bad(&error))?,
            ),
        };
        let scope = match self.scope.as_str() {
            "" => None,
            name => Some(name.parse::<TopologyScope>().map_err(|error| bad(&error))?),
        };
        let (hardware, machine) = match &self.machine_file {
            Some(file) => {
                let bytes = STANDARD.decode(&file.base64).map_err(|error| {
                    Findings::one(Part::Machine, format!("{}: {error}", file.name))
                })?;
                let read = pinfold_hardware::open_bytes(Path::new(&file.name), &bytes);
                (read, file.name.clone())
            }
            None => (
                pinfold_hardware::open_without_files(&self.machine),
                self.machine.clone(),
            ),
        };
        let hardware = hardware.map_err(|error| Findings::one(Part::Machine, error.to_string()))?;
        let config = match self.config.trim() {
            "" => None,
            _ => {
                let (name, bytes) = (CONFIG.to_owned(), self.config.clone().into_bytes());
                // Read here for the positions of its errors; what a kubelet rejects is for the answer.
                let read = KubeletSettings::read(&name, &bytes, Fidelity::Exact);
                match read {
                    Err(found) if crate::startup::file_problems(&found).is_none() => {
                        return Err(Findings::all(Part::Config, &found));
                    }
                    _ => Some(Source { name, bytes }),
                }
            }
        };
        let args = NodeArgs {
            machine: MachineArg { machine },
            config: None,
            policy,
            scope,
            devices: self.devices.clone(),
            devices_file: None,
            decider: DeciderArg {
                decider: self.decider()?,
            },
        };
        let files = NodeFiles::of(&args, hardware, config);
        let files = files.map_err(|failure| Findings::failure(Part::Devices, failure))?;
        Ok(files.without_options(self.options_off.clone()))
    }

    /// The pods of all files with the changed amounts.
    pub(crate) fn pods(&self) -> Result<QuestionPods, Findings> {
        let (mut objects, mut warnings) = (Vec::new(), Vec::new());
        for file in &self.pods {
            let read = pod::read_file(&file.name, file.text.as_bytes(), &[]);
            let read = read.map_err(|found| Findings::all(Part::Pods, &found))?;
            let found = read.warnings.iter();
            warnings.extend(found.map(|one| Finding::of(Part::Pods, one)));
            if read.value.without_pods.total() > 0 {
                let mut ignored =
                    Finding::new(Part::Pods, format!("ignored {}", read.value.without_pods));
                ignored.file.clone_from(&file.name);
                warnings.push(ignored);
            }
            objects.extend(read.value.pods);
            if objects.len() > MOST_PODS {
                return Err(Findings::one(
                    Part::Pods,
                    format!(
                        "expected at most {MOST_PODS} pods on this page, found more: pinfold simulate takes them"
                    ),
                ));
            }
        }
        let mut objects =
            input::named_once(objects).map_err(|failure| Findings::failure(Part::Pods, failure))?;
        for object in &mut objects {
            let of_it = self.changes.iter().filter(|one| one.pod == object.pod.name);
            let changes: Vec<RequestChange> = of_it.map(RequestChange::from).collect();
            if !changes.is_empty() {
                object.pod = remedies::with_changes(&Arc::new(object.pod.clone()), &changes);
            }
        }
        Ok(QuestionPods { objects, warnings })
    }

    /// The steps of the script, or one for each pod.
    pub(crate) fn steps(&self, pods: &[PodObject]) -> Result<Vec<SimulationStep>, Findings> {
        let steps = match self.steps.trim() {
            "" => (0..pods.len()).map(SimulationStep::Add).collect(),
            _ => {
                let source = Source {
                    name: STEPS.to_owned(),
                    bytes: self.steps.clone().into_bytes(),
                };
                let names: Vec<ScriptPod> = pods.iter().map(ScriptPod::from).collect();
                let steps = script::steps(&source, &names);
                steps.map_err(|failure| Findings::failure(Part::Steps, failure))?
            }
        };
        match steps.len() > MOST_STEPS {
            true => Err(Findings::one(
                Part::Steps,
                format!("expected at most {MOST_STEPS} steps, found {}", steps.len()),
            )),
            false => Ok(steps),
        }
    }
}

impl From<&AmountOfPod> for RequestChange {
    fn from(change: &AmountOfPod) -> Self {
        Self {
            container: change.container.as_deref().map(Into::into),
            resource: change.resource.as_str().into(),
            manager: match change.manager {
                Manager::Cpu => ResourceManager::Cpu,
                Manager::Memory => ResourceManager::Memory,
                Manager::Device => ResourceManager::Device,
            },
            from: 0,
            to: change.to,
        }
    }
}
