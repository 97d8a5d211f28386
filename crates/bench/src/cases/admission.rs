//! Section (d): a whole admission of a pod with CPUs, memory and a device, after the pod before it has left.
//!
//! The kubelet also writes its state files in this time, to a file system in memory; here the change comes out as a
//! value and is not written anywhere.

use std::hint::black_box;

use pinfold_core::device::NoPreference;
use pinfold_core::name::ResourceName;

use crate::case::{Case, Group};
use crate::fixture;
use crate::reference;

const DEVICE: &str = "example.com/device";

pub(super) fn cases() -> Vec<Case> {
    let rows = reference::section('d').into_iter().map(|shape| {
        let (policy, scope) = (shape.text("policy"), shape.text("scope"));
        let admission = Admission {
            nodes: shape.number("NUMA"),
            cpus: 128,
            residents: 0,
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

/// A pod comes to a node.
#[derive(Clone, Copy)]
pub(super) struct Admission {
    pub(super) nodes: usize,
    pub(super) cpus: usize,
    /// Pods that live there already.
    pub(super) residents: usize,
    pub(super) policy: &'static str,
    pub(super) scope: &'static str,
}

impl Admission {
    pub(super) fn case(self, group: Group, name: String) -> Case {
        Case::new(group, name, move || self.prepare())
    }

    fn prepare(self) -> impl FnMut() {
        let shape = fixture::Shape {
            nodes: self.nodes,
            cpus: self.cpus,
            caches: 1,
            hugepages: 0,
        };
        let settings = fixture::settings(self.policy, self.scope);
        let mut ledger = fixture::ledger(shape.machine(), settings);
        let devices = fixture::offer(8, self.nodes);
        ledger.set_devices(ResourceName::from(DEVICE), Some(devices));
        for number in 0..self.residents {
            let uid = format!("resident-{number}");
            let pod = fixture::pod(&uid, &[("cpu", "1"), ("memory", "1Gi")]);
            let admission = ledger.admit(&pod, &mut NoPreference).expect("a new pod");
            assert!(admission.decision.is_admitted());
        }
        let amounts = [("cpu", "4"), ("memory", "1Gi"), (DEVICE, "1")];
        let [mut leaves, mut comes] = ["a", "b"].map(|uid| fixture::pod(uid, &amounts));
        ledger.admit(&leaves, &mut NoPreference).expect("a new pod");
        move || {
            black_box(ledger.release(&leaves.uid).expect("it is here"));
            let admission = ledger.admit(&comes, &mut NoPreference);
            let admission = black_box(admission.expect("it is not here"));
            assert!(admission.decision.is_admitted());
            std::mem::swap(&mut leaves, &mut comes);
        }
    }
}
