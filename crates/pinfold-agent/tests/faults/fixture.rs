//! A small node with rules and pods, and random changes to its ledger.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_agent::{JournaledLedger, JournaledLedgerError};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Rules;
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::PodUid;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_journal::{JournalError, JournalLimits, JournalPodRecord, Timestamp};

/// Small limits, so that the journal is compacted often.
pub(crate) const LIMITS: JournalLimits = JournalLimits {
    entries: 40,
    bytes: 1 << 20,
};

/// Deterministic pseudo-random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The seed in `PINFOLD_SEED`, else one that differs from run to run.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("PINFOLD_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    print_line(&format!("PINFOLD_SEED={seed}"));
    seed
}

/// Writes a line to standard output and flushes it.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").expect("standard output");
    out.flush().expect("standard output");
}

fn quantity(text: &str) -> Quantity {
    text.parse().expect("a quantity")
}

pub(crate) fn rules() -> Arc<Rules> {
    rules_with("restricted", 2)
}

pub(crate) fn rules_with(policy: &str, reserved: i64) -> Arc<Rules> {
    let hardware = pinfold_hardware::open("2 sockets, 8 cores, smt2").expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("all of it");
    let memory: ResourceList = [("memory".into(), quantity("1Gi"))].into();
    let settings = Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(reserved)),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: memory.clone(),
        }],
        node_reservation: memory,
        ..Settings::default()
    };
    Arc::new(Rules::new(Arc::new(machine), settings).expect("good settings"))
}

pub(crate) fn pod(uid: &str, cpus: u64) -> Arc<Pod> {
    let amounts: ResourceList = [
        ("cpu".into(), quantity(&cpus.to_string())),
        ("memory".into(), quantity("256Mi")),
    ]
    .into();
    Arc::new(Pod {
        uid: uid.into(),
        name: format!("tests/{uid}"),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: amounts.clone(),
            limits: amounts,
        }],
        pod_requests: None,
        pod_limits: None,
    })
}

/// Serializes tests that start processes and tests that lock the journal: between fork and exec a child process has the
/// open files of its parent, including the lock file.
pub(crate) fn exclusive_lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn open(folder: &Path) -> Result<JournaledLedger, JournalError> {
    JournaledLedger::open(folder, rules(), LIMITS)
}

/// The exclusive CPUs of every pod, as text.
pub(crate) type Held = BTreeMap<String, String>;

pub(crate) fn held(journaled: &JournaledLedger) -> Held {
    let cpus = journaled.ledger().state().cpus();
    let residents = journaled.ledger().state().admitted_pods();
    let own = |uid: &PodUid| (uid.to_string(), cpus.containers_of(uid).to_string());
    residents.keys().map(own).collect()
}

/// Admits a random pod or releases one.
pub(crate) fn step(
    journaled: &mut JournaledLedger,
    random: &mut Random,
) -> Result<(), JournaledLedgerError> {
    let now = Timestamp::UNIX_EPOCH;
    let residents: Vec<PodUid> = journaled
        .ledger()
        .state()
        .admitted_pods()
        .keys()
        .cloned()
        .collect();
    if !residents.is_empty() && random.below(100) < 45 {
        let index = random.below(residents.len() as u64);
        let pod = &residents[usize::try_from(index).expect("few pods")];
        return journaled.release(pod, now);
    }
    let uid = format!("pod-{}", journaled.generation());
    let pod = pod(&uid, 1 + random.below(9));
    journaled
        .admit(&pod, JournalPodRecord::default(), &mut NoPreference, now)
        .map(drop)
}
