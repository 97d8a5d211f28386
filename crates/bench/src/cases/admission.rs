//! Section (d): the release of one pod and the whole admission of the next, with CPUs, memory and a device.
//!
//! The kubelet also writes its state files in this time, to a file system in memory; here the change is returned as a
//! value and not written.

use std::hint::black_box;

use pinfold_core::device::NoPreference;
use pinfold_core::name::ResourceName;

use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::reference;

const DEVICE: &str = "example.com/device";

pub(super) fn cases() -> Vec<BenchCase> {
    let rows = reference::section('d').into_iter().map(|shape| {
        let (policy, scope) = (shape.text("policy"), shape.text("scope"));
        let admission = AdmissionCase {
            nodes: shape.number("NUMA"),
            cpus: 128,
            pods: 0,
            containers: 1,
            policy,
            scope,
        };
        let name = format!("{} nodes, {policy}, scope {scope}", admission.nodes);
        let case = admission.case(Group::Admission, name);
        let case = case.beside(shape.reference());
        match admission.nodes {
            8 => case.within_us(30.0),
            _ => case,
        }
    });
    rows.collect()
}

/// The admission of a pod to a node.
#[derive(Clone, Copy)]
pub(super) struct AdmissionCase {
    pub(super) nodes: usize,
    pub(super) cpus: usize,
    /// The number of pods on the node.
    pub(super) pods: usize,
    /// The number of containers of the pod; all but one are small.
    pub(super) containers: usize,
    pub(super) policy: &'static str,
    pub(super) scope: &'static str,
}

impl AdmissionCase {
    pub(super) fn case(self, group: Group, name: String) -> BenchCase {
        BenchCase::new(group, name, move || self.prepare())
    }

    fn prepare(self) -> impl FnMut() {
        let shape = fixture::MachineShape {
            nodes: self.nodes,
            cpus: self.cpus,
            caches: 1,
            hugepages: 0,
        };
        let settings = fixture::settings(self.policy, self.scope);
        let mut ledger = fixture::ledger(shape.machine(), settings);
        let devices = fixture::offer(8, self.nodes);
        ledger.set_devices(ResourceName::from(DEVICE), Some(devices));
        for number in 0..self.pods {
            let uid = format!("pod-{number}");
            let pod = fixture::pod(&uid, &[("cpu", "1"), ("memory", "1Gi")]);
            let admission = ledger.admit(&pod, &mut NoPreference).expect("a new pod");
            assert!(admission.decision.is_admitted());
        }
        let amounts = [("cpu", "4"), ("memory", "1Gi"), (DEVICE, "1")];
        let [mut running, mut next] = ["a", "b"].map(|uid| {
            let pod = fixture::pod(uid, &amounts);
            fixture::with_small_containers(&pod, self.containers - 1)
        });
        ledger
            .admit(&running, &mut NoPreference)
            .expect("a new pod");
        move || {
            black_box(ledger.release(&running.uid).expect("it is admitted"));
            let admission = ledger.admit(&next, &mut NoPreference);
            let admission = black_box(admission.expect("it is not admitted"));
            assert!(admission.decision.is_admitted());
            std::mem::swap(&mut running, &mut next);
        }
    }
}
