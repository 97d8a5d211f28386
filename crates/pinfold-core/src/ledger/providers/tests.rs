use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::decision::Decision;
use crate::device::NoPreference;
use crate::hint::ResourceHints;
use crate::ledger::{Ledger, Rules};
use crate::machine::{Machine, UniformMachine};
use crate::node_set::NodeSet;
use crate::policy::TopologyPolicy;
use crate::quantity::Quantity;
use crate::settings::CpuManagerPolicy;
use crate::settings::Settings;

/// A provider that is not one of the kubelet's: it prefers NUMA node 1, and fails for containers named `never`.
#[derive(Debug)]
struct PrefersNodeOne;

static RELEASED: AtomicUsize = AtomicUsize::new(0);

impl HintProvider for PrefersNodeOne {
    fn hints(&self, _: &Attempt<'_, '_>, _: Option<&Container>) -> ProviderHints {
        let one = Hint::on(NodeSet::from_bits(0b10), true);
        ProviderHints::one("example.com/link".into(), ResourceHints::List(vec![one]))
    }

    fn facts(&self, _: &Attempt<'_, '_>, _: Option<&Container>, facts: &mut Vec<ResourceFacts>) {
        let link = "example.com/link".into();
        facts.push(ResourceFacts::new(link, ResourceManager::Device, 1));
    }

    fn allocate<'p>(
        &self,
        _: &mut Attempt<'_, 'p>,
        container: &'p Container,
        _: Hint,
    ) -> Result<(), AllocationError> {
        let resource = ResourceName::from("example.com/link");
        match container.name.as_str() {
            "never" => Err(crate::device::DeviceError::Unregistered { resource }.into()),
            _ => Ok(()),
        }
    }

    fn release(&self, _: &mut LedgerTransaction<'_>, _: &PodUid) {
        RELEASED.fetch_add(1, Ordering::Relaxed);
    }
}

static FOUR: [&dyn HintProvider; 4] = [KUBELET[0], KUBELET[1], KUBELET[2], &PrefersNodeOne];

fn ledger(providers: &'static [&'static dyn HintProvider]) -> Ledger {
    let machine = Machine::uniform(UniformMachine {
        sockets: 2,
        nodes_per_socket: 1,
        cores_per_node: 4,
        threads_per_core: 1,
        memory_per_node: 1 << 30,
    })
    .unwrap();
    let settings = Settings {
        topology_policy: TopologyPolicy::Restricted,
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(1)),
        ..Settings::default()
    };
    let mut rules = Rules::new(Arc::new(machine), settings).unwrap();
    rules.providers = providers;
    Ledger::new(Arc::new(rules))
}

fn admit(ledger: &mut Ledger, container: &str) -> Decision {
    let amounts = [
        ("cpu", Quantity::from(2)),
        ("memory", Quantity::from(1 << 20)),
    ];
    let pod = Pod::new(container, [Container::guaranteed(container, amounts)]);
    let admission = ledger.admit(&Arc::new(pod), &mut NoPreference);
    admission.unwrap().decision
}

#[test]
fn a_fourth_provider_takes_part_in_alignment_allocation_and_release() {
    let cpus = |decision: &Decision| {
        let assignment = decision.assignment().unwrap();
        assignment.containers[0].cpus.clone().unwrap().to_string()
    };
    assert_eq!(cpus(&admit(&mut ledger(&KUBELET), "c")), "1-2");

    let mut ledger = ledger(&FOUR);
    let decision = admit(&mut ledger, "c");
    assert_eq!(cpus(&decision), "4-5");
    let resources = &decision.explanation.alignments[0].resources;
    let merged: Vec<_> = resources
        .iter()
        .map(|facts| (facts.resource.as_str(), facts.merge_index))
        .collect();
    // The device and the memory manager have no preference: one entry each in the merge.
    assert_eq!(merged, [("cpu", Some(1)), ("example.com/link", Some(3))]);

    let rejected = admit(&mut ledger, "never");
    let rejection = rejected.rejection().unwrap();
    assert_eq!(
        rejection.message,
        "Allocate failed due to cannot allocate unregistered device example.com/link, which is unexpected"
    );
    assert_eq!(rejected.explanation.shortage.len(), 1);

    let before = RELEASED.load(Ordering::Relaxed);
    ledger.release(&"c".into()).unwrap();
    assert_eq!(RELEASED.load(Ordering::Relaxed), before + 1);
}
