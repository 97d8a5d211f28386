//! [`SimulatedNode`]: a machine, the rules of its kubelet or agent, and its devices, as the command line names them.

use std::path::Path;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::memory::hugepages_resource;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{Settings, TopologyScope};
use pinfold_hardware::Hardware;
use pinfold_kube::admission::{NodeCapacity, PodLimits};
use pinfold_kube::decider::Decider;
use pinfold_kube::diagnostic::Diagnostic;
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_terminal::Source;

use crate::args::NodeArgs;
use crate::devices::{self, Offers};
use crate::exit::Failure;
use crate::input;
use crate::output::remark;
use crate::startup::{self, StartProblem, Startup};

/// A node to admit pods on.
pub(crate) struct SimulatedNode {
    /// The machine's name; may be empty.
    pub(crate) name: String,
    /// Who decides about its pods.
    pub(crate) decider: Decider,
    /// Machine and settings.
    pub(crate) rules: Arc<Rules>,
    /// The devices of its device plugins.
    pub(crate) offers: Offers,
    /// The amounts that pods may request in all, as its kubelet would report them.
    pub(crate) allocatable: Amounts,
}

/// The files that describe a node, read once: the same node can be decided about by several programs.
pub(crate) struct NodeFiles {
    hardware: Hardware,
    machine: Arc<Machine>,
    /// The machine as it is called in messages.
    machine_name: String,
    config: Option<Source>,
    policy: Option<TopologyPolicy>,
    scope: Option<TopologyScope>,
    /// Options of the CPU and topology manager that are left out.
    options_off: Vec<String>,
    offers: Offers,
}

/// Why there are no rules for a node.
enum NoRules {
    /// The program that decides does not start.
    NotStarting(Vec<StartProblem>),
    /// The configuration cannot be read.
    Unreadable(Failure),
}

impl NodeFiles {
    /// Reads everything that the arguments name.
    pub(crate) fn read(args: &NodeArgs) -> Result<Self, Failure> {
        Self::read_with(args, None)
    }

    /// The same with this configuration, unless the arguments name another.
    pub(crate) fn read_with(args: &NodeArgs, config: Option<&Path>) -> Result<Self, Failure> {
        let config = args.config.as_deref().or(config);
        let config = config.map(Source::open).transpose()?;
        Self::of(args, input::hardware(&args.machine.machine)?, config)
    }

    /// The same with this machine and configuration, which the arguments do not name.
    pub(crate) fn of(
        args: &NodeArgs,
        hardware: Hardware,
        config: Option<Source>,
    ) -> Result<Self, Failure> {
        let machine = Arc::new(kubelet_machine(&hardware)?);
        let machine_name = match hardware.name.as_str() {
            "" => args.machine.machine.clone(),
            name => name.to_owned(),
        };
        Ok(Self {
            offers: devices::offers(args, &hardware)?,
            config,
            policy: args.policy,
            scope: args.scope,
            options_off: Vec::new(),
            hardware,
            machine,
            machine_name,
        })
    }

    /// The machine as it is called in messages.
    pub(crate) fn machine_name(&self) -> &str {
        &self.machine_name
    }

    /// The same without these options of the CPU and topology manager.
    pub(crate) fn without_options(self, options_off: Vec<String>) -> Self {
        Self {
            options_off,
            ..self
        }
    }

    /// The node whose pods `decider` decides about. Warnings about the configuration are printed.
    ///
    /// # Errors
    /// If the configuration cannot be read, or the kubelet or agent does not start with it.
    pub(crate) fn node(&self, decider: Decider) -> Result<SimulatedNode, Failure> {
        self.node_with(decider, Source::warn)
    }

    /// As [`Self::node`]; `warn` gets the warnings about the configuration.
    pub(crate) fn node_with(
        &self,
        decider: Decider,
        warn: impl Fn(&Source, &[Diagnostic]),
    ) -> Result<SimulatedNode, Failure> {
        let startup = Startup {
            decider,
            config: match &self.config {
                Some(config) => config.name.clone(),
                None => "the built-in settings (no --config)".to_owned(),
            },
            machine: self.machine_name.clone(),
        };
        match self.starting_node(decider, warn)? {
            Ok(node) => Ok(node),
            Err(problems) => {
                let pinfold_starts = self.rules(Decider::Pinfold, |_, _| {}).is_ok();
                Err(startup.failure(&problems, pinfold_starts))
            }
        }
    }

    /// As [`Self::node_with`]; what keeps the kubelet or agent from starting is an answer, not a failure.
    ///
    /// # Errors
    /// If the configuration cannot be read.
    pub(crate) fn starting_node(
        &self,
        decider: Decider,
        warn: impl Fn(&Source, &[Diagnostic]),
    ) -> Result<Result<SimulatedNode, Vec<StartProblem>>, Failure> {
        match self.rules(decider, warn) {
            Ok((rules, limits)) => Ok(Ok(self.with_rules(decider, rules, limits))),
            Err(NoRules::NotStarting(problems)) => Ok(Err(problems)),
            Err(NoRules::Unreadable(failure)) => Err(failure),
        }
    }

    /// The configuration; `None` for the built-in settings.
    pub(crate) fn config(&self) -> Option<&Source> {
        self.config.as_ref()
    }

    /// The node whose pods Pinfold's agent decides about, without printing warnings again; `None` if the agent does not
    /// start.
    pub(crate) fn as_pinfold(&self) -> Option<SimulatedNode> {
        let (rules, limits) = self.rules(Decider::Pinfold, |_, _| {}).ok()?;
        Some(self.with_rules(Decider::Pinfold, rules, limits))
    }

    fn with_rules(&self, decider: Decider, rules: Rules, limits: PodLimits) -> SimulatedNode {
        let capacity = capacity(&self.machine, self.hardware.memory, &self.offers);
        SimulatedNode {
            name: self.hardware.name.clone(),
            decider,
            allocatable: capacity.allocatable(rules.settings(), limits),
            rules: Arc::new(rules),
            offers: self.offers.clone(),
        }
    }

    fn rules(
        &self,
        decider: Decider,
        warn: impl Fn(&Source, &[Diagnostic]),
    ) -> Result<(Rules, PodLimits), NoRules> {
        // A scheduler's defects are not its nodes' defects.
        let fidelity = match decider.is_kubelet() {
            true => decider.fidelity(),
            false => Fidelity::Sound,
        };
        let mut limits = PodLimits::default();
        let mut settings = match &self.config {
            Some(config) => {
                let read = KubeletSettings::read(&config.name, &config.bytes, fidelity);
                let read = read.map_err(|findings| match startup::file_problems(&findings) {
                    Some(problems) => NoRules::NotStarting(problems),
                    None => NoRules::Unreadable(config.failure(&findings)),
                })?;
                warn(config, &read.warnings);
                limits = read.value.pod_limits;
                read.value.settings(self.hardware.memory, fidelity)
            }
            None => Settings::built_in(&self.machine, fidelity),
        };
        if let Some(policy) = self.policy {
            settings.topology_policy = policy;
        }
        if let Some(scope) = self.scope {
            settings.topology_scope = scope;
        }
        for option in &self.options_off {
            settings.cpu_options.remove(option);
            settings.topology_options.remove(option);
        }
        match Rules::new(self.machine.clone(), settings.clone()) {
            Ok(rules) => Ok((rules, limits)),
            Err(_) => {
                let problems = startup::problems(&self.machine, &settings);
                Err(NoRules::NotStarting(problems))
            }
        }
    }
}

impl SimulatedNode {
    /// The node that the arguments name.
    pub(crate) fn open(args: &NodeArgs) -> Result<Self, Failure> {
        NodeFiles::read(args)?.node(args.decider.decider)
    }

    /// The node of these files, and if a kubelet decides, the same node under Pinfold's agent.
    pub(crate) fn open_with_pinfold(
        files: &NodeFiles,
        decider: Decider,
    ) -> Result<(Self, Option<Self>), Failure> {
        let node = files.node(decider)?;
        let pinfold = match node.decider.is_kubelet() {
            true => files.as_pinfold(),
            false => None,
        };
        Ok((node, pinfold))
    }

    /// A node with the rules of an agent's journal.
    pub(crate) fn from_rules(rules: Arc<Rules>) -> Self {
        let machine = rules.machine();
        let memory = machine.nodes().iter().map(|node| node.memory);
        let memory = memory.fold(0, u64::saturating_add);
        let capacity = capacity(machine, memory, &Offers::new());
        Self {
            allocatable: capacity.allocatable(rules.settings(), PodLimits::default()),
            name: String::new(),
            decider: match rules.fidelity() {
                exact @ (Fidelity::Exact | Fidelity::Version(_)) => {
                    Decider::Kubelet(exact.version())
                }
                Fidelity::Sound | Fidelity::Repeating(_) => Decider::Pinfold,
            },
            rules,
            offers: Offers::new(),
        }
    }

    /// The same node under another policy and scope.
    ///
    /// # Errors
    /// If the settings do not allow that.
    pub(crate) fn under(
        &self,
        policy: TopologyPolicy,
        scope: TopologyScope,
    ) -> Result<Self, SettingsError> {
        let settings = Settings {
            topology_policy: policy,
            topology_scope: scope,
            ..self.rules.settings().clone()
        };
        Ok(Self {
            name: self.name.clone(),
            decider: self.decider,
            rules: Arc::new(Rules::new(self.rules.machine().clone(), settings)?),
            offers: self.offers.clone(),
            allocatable: self.allocatable.clone(),
        })
    }

    /// The same node under another policy or scope, if one is given.
    pub(crate) fn with(
        self,
        policy: Option<TopologyPolicy>,
        scope: Option<TopologyScope>,
    ) -> Result<Self, Failure> {
        if policy.is_none() && scope.is_none() {
            return Ok(self);
        }
        let policy = policy.unwrap_or(self.rules.policy());
        let scope = scope.unwrap_or(self.rules.scope());
        self.under(policy, scope)
            .map_err(|error| Failure::BadInput(error.to_string()))
    }

    /// A ledger without pods, with the devices of the device plugins.
    pub(crate) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(self.rules.clone());
        for (resource, offer) in &self.offers {
            ledger.set_devices(resource.clone(), Some(offer.clone()));
        }
        ledger
    }

    /// The machine.
    pub(crate) fn machine(&self) -> &Machine {
        self.rules.machine()
    }

    /// Who decides and the managers' policies and options, in one line.
    pub(crate) fn described(&self) -> String {
        let settings = self.rules.settings();
        let topology = match self.rules.policy() {
            TopologyPolicy::None => "topology none".to_owned(),
            policy => format!("topology {policy} per {}", self.rules.scope()),
        };
        let mut parts = vec![
            format!("as {}: {topology}", self.decider),
            format!("CPUs {}", settings.cpu_policy),
            format!("memory {}", settings.memory_policy),
        ];
        let options = settings
            .cpu_options
            .iter()
            .chain(&settings.topology_options);
        parts.extend(options.map(|(name, value)| match value.as_str() {
            "true" => name.clone(),
            _ => format!("{name}={value}"),
        }));
        parts.join(", ")
    }
}

/// What the kubelet reports as the capacity of a machine with this total memory.
fn capacity(machine: &Machine, memory: u64, offers: &Offers) -> NodeCapacity {
    let mut capacity = NodeCapacity {
        cpus: machine.online().len(),
        memory,
        ..NodeCapacity::default()
    };
    for pages in machine.nodes().iter().flat_map(|node| &node.hugepages) {
        let resource = hugepages_resource(pages.size_kib);
        let bytes = capacity.hugepages.entry(resource).or_default();
        let more = pages
            .size_kib
            .saturating_mul(1024)
            .saturating_mul(pages.count);
        *bytes = bytes.saturating_add(more);
    }
    for (resource, devices) in offers {
        let healthy = devices.values().filter(|device| device.healthy).count();
        capacity.devices.insert(resource.clone(), healthy);
    }
    capacity
}

/// The machine as the kubelet sees it. NUMA nodes whose ids no hint can hold are left out with a warning.
pub(crate) fn kubelet_machine(hardware: &Hardware) -> Result<Machine, Failure> {
    let (machine, left_out) = hardware
        .machine_within_reach()
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    if let Some(node) = left_out.first() {
        remark(&format!(
            "warning: {} NUMA nodes from {node} on are left out: they have no CPUs, and their ids are beyond 63",
            left_out.len()
        ));
    }
    Ok(machine)
}
