//! [`Node`]: a machine, the rules it is run by and its devices, put together from the command line.

use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{Settings, TopologyScope};
use pinfold_hardware::Hardware;

use crate::args::NodeArgs;
use crate::devices::{self, Offers};
use crate::exit::Failure;
use crate::input;
use crate::output::remark;

/// A node to try pods on.
pub(crate) struct Node {
    /// What people call the machine; may be empty.
    pub(crate) name: String,
    /// Machine and settings.
    pub(crate) rules: Arc<Rules>,
    /// What device plugins offer.
    pub(crate) offers: Offers,
}

impl Node {
    /// Reads everything that the arguments name.
    pub(crate) fn open(args: &NodeArgs) -> Result<Self, Failure> {
        let fidelity = match args.exact {
            true => Fidelity::Exact,
            false => Fidelity::Sound,
        };
        let hardware = input::hardware(&args.machine.machine)?;
        let machine = view(&hardware)?;
        let mut settings = match &args.config {
            Some(path) => input::kubelet(path, fidelity)?.settings(hardware.memory, fidelity),
            None => Settings::built_in(&machine, fidelity),
        };
        if let Some(policy) = args.policy {
            policy.name().clone_into(&mut settings.topology_policy);
        }
        if let Some(scope) = args.scope {
            scope.name().clone_into(&mut settings.topology_scope);
        }
        let offers = devices::offers(&args.devices, args.devices_file.as_deref(), &hardware)?;
        let rules = Rules::new(Arc::new(machine), settings).map_err(|error| {
            let told = match &args.config {
                Some(path) => format!("{}: no kubelet would start with this", path.display()),
                None => "this machine cannot be run with the built-in settings".to_owned(),
            };
            Failure::BadInput(format!("{told}\n  {error}\n  try: pinfold check"))
        })?;
        Ok(Self {
            name: hardware.name,
            rules: Arc::new(rules),
            offers,
        })
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
            topology_policy: policy.name().to_owned(),
            topology_scope: scope.name().to_owned(),
            ..self.rules.settings().clone()
        };
        Ok(Self {
            name: self.name.clone(),
            rules: Arc::new(Rules::new(self.rules.machine().clone(), settings)?),
            offers: self.offers.clone(),
        })
    }

    /// The same under another policy or scope, if there is one.
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

    /// A ledger without pods, with the devices on offer.
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

    /// How the node is run, in one line.
    pub(crate) fn described(&self) -> String {
        let settings = self.rules.settings();
        let topology = match self.rules.policy() {
            TopologyPolicy::None => "topology none".to_owned(),
            policy => format!("topology {policy} per {}", self.rules.scope()),
        };
        let mut words = vec![
            topology,
            format!("CPUs {}", settings.cpu_policy),
            format!("memory {}", settings.memory_policy),
        ];
        let options = settings
            .cpu_options
            .iter()
            .chain(&settings.topology_options);
        words.extend(options.map(|(name, value)| match value.as_str() {
            "true" => name.clone(),
            _ => format!("{name}={value}"),
        }));
        if settings.fidelity == Fidelity::Exact {
            words.push("exact".to_owned());
        }
        words.join(", ")
    }
}

/// The machine as the kubelet sees it. Nodes that no hint can name are left out with a remark.
pub(crate) fn view(hardware: &Hardware) -> Result<Machine, Failure> {
    let (machine, left_out) = hardware
        .machine_within_reach()
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    if let Some(node) = left_out.first() {
        remark(&format!(
            "warning: {} NUMA nodes from {node} on have no CPUs and ids beyond 63; they are left out",
            left_out.len()
        ));
    }
    Ok(machine)
}
