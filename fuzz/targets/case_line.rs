//! Test vectors: the name of a family on the first line, a case of it on the second. Every case has a result.
#![no_main]

use std::sync::LazyLock;

use conformance::kubelet::{self, Machines};
use conformance::{Case, koordinator, scheduler_plugins, volcano};
use libfuzzer_sys::fuzz_target;
use pinfold_core::fidelity::KubeletVersion;

static MACHINES: LazyLock<Machines> = LazyLock::new(|| {
    let mut machines = Machines::default();
    for line in include_str!("../../conformance/kubelet/topologies.jsonl").lines() {
        let case: Case = serde_json::from_str(line).expect("a machine per line");
        machines.add(&case);
    }
    machines
});

fuzz_target!(|text: &str| {
    let Some((family, line)) = text.split_once('\n') else {
        return;
    };
    let Ok(case) = serde_json::from_str::<Case>(line) else {
        return;
    };
    let _ = match family.split_once(' ') {
        Some(("koordinator", family)) => koordinator::replay(family, &case),
        Some(("volcano", family)) => volcano::replay(family, &case),
        Some(("scheduler-plugins", family)) => scheduler_plugins::replay(family, &case),
        _ => kubelet::replay(KubeletVersion::DEFAULT, family, &case, &MACHINES),
    };
});
