//! Other settings: the weaker policies, the other scope, each option off. Admitted pods keep their assignments.

use std::sync::Arc;

use super::trial::RemedyTrial;
use super::{Alteration, OptionOwner, Remedy, RemedyScope, RemedySize};
use crate::go_text;
use crate::ledger::{Ledger, Rules};
use crate::pod::Pod;
use crate::policy::TopologyPolicy;
use crate::settings::{Settings, TopologyScope};

/// The settings under which the pod would be admitted: the nearest weaker policy, the other scope, and every single
/// option whose absence helps.
pub(super) fn remedies(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    trial: &mut RemedyTrial<'_>,
) -> Vec<Remedy> {
    let (policy, scope) = (ledger.rules().policy(), ledger.rules().scope());
    let weaker = TopologyPolicy::ALL
        .into_iter()
        .rev()
        .filter(|&to| to < policy);
    let mut policies = weaker.map(|to| Alteration::Policy { from: policy, to });
    let mut found: Vec<Remedy> = policies
        .find_map(|change| remedy(ledger, pod, change, trial))
        .into_iter()
        .collect();
    let mut changes = Vec::new();
    if policy != TopologyPolicy::None {
        let to = match scope {
            TopologyScope::Container => TopologyScope::Pod,
            TopologyScope::Pod => TopologyScope::Container,
        };
        changes.push(Alteration::Scope { from: scope, to });
    }
    let settings = ledger.rules().settings();
    for (of, options) in [
        (OptionOwner::CpuManager, &settings.cpu_options),
        (OptionOwner::TopologyManager, &settings.topology_options),
    ] {
        let on = options
            .iter()
            .filter(|(_, value)| go_text::boolean(value) == Ok(true));
        changes.extend(on.map(|(name, _)| Alteration::OptionOff {
            of,
            name: name.clone(),
        }));
    }
    found.extend(
        changes
            .into_iter()
            .filter_map(|change| remedy(ledger, pod, change, trial)),
    );
    found
}

fn remedy(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    change: Alteration,
    trial: &mut RemedyTrial<'_>,
) -> Option<Remedy> {
    let settings = change.settings(ledger.rules().settings());
    let rules = Rules::new(
        ledger.rules().machine().clone(),
        ledger.rules().keep_reserved_cpus(settings),
    )
    .ok()?;
    let mut changed = ledger.with_rules(Arc::new(rules))?;
    let assignment = trial.admit(&mut changed, pod)?;
    let amount = match &change {
        Alteration::Policy { from, to } => (*from as u64).saturating_sub(*to as u64),
        _ => 1,
    };
    Some(Remedy {
        alteration: change,
        size: RemedySize {
            scope: RemedyScope::Node,
            amount,
            loss: 0,
        },
        assignment,
        nearest: true,
    })
}

impl Alteration {
    /// The settings after the change; unchanged if the change does not affect the node.
    #[must_use]
    pub fn settings(&self, settings: &Settings) -> Settings {
        let mut changed = settings.clone();
        match self {
            Alteration::Policy { to, .. } => changed.topology_policy = *to,
            Alteration::Scope { to, .. } => changed.topology_scope = *to,
            Alteration::OptionOff {
                of: OptionOwner::CpuManager,
                name,
            } => {
                changed.cpu_options.remove(name);
            }
            Alteration::OptionOff {
                of: OptionOwner::TopologyManager,
                name,
            } => {
                changed.topology_options.remove(name);
            }
            Alteration::Request(_) | Alteration::Move(_) | Alteration::Evict(_) => {}
        }
        changed
    }
}
