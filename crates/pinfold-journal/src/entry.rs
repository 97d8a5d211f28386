//! The content of a journal: entries, and snapshots of the whole node.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::ledger::{Change, LedgerState, Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_core::settings::Settings;
use serde::{Deserialize, Serialize};

use super::{JournalPodRecord, Timestamp};

/// One event with the change that it made to the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// Sequence number: one more than that of the entry before it.
    pub number: u64,
    /// When the entry was made.
    pub time: Timestamp,
    /// The event.
    pub event: JournalEvent,
    /// Namespace and name of the pod; empty for events that concern no pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// The result and its reason, in one sentence.
    pub message: String,
    /// The change to the ledger; `None` if the ledger did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The pod's new record, if the event set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<JournalPodRecord>,
    /// The pod, if it was rejected: the change of an admitted pod contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<Pod>>,
    /// The decision: the assignment or rejection and the facts that explain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<serde_json::Value>,
}

/// The event that an entry records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalEvent {
    /// A pod was admitted.
    Admitted(PodUid),
    /// A pod was rejected.
    Rejected(PodUid),
    /// A container started.
    ContainerStarted(PodUid, ContainerName),
    /// A process or control group outside the container runtime was pinned to the CPUs of a container.
    Pinned(PodUid, ContainerName),
    /// A pod released its resources.
    Released(PodUid),
    /// A device plugin registered, disconnected, or reported other devices or another health.
    DevicesChanged(ResourceName),
    /// The machine or the settings changed.
    RulesChanged,
    /// Best-effort pods have fewer CPUs while other pods are busy, or all of them again.
    BestEffortLimited,
}

/// The whole state of a node. Entries after it change this state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSnapshot {
    /// Number of the last entry whose change the snapshot contains.
    pub number: u64,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The settings: policies, scope and reservations.
    pub settings: Settings,
    /// The CPUs, memory and devices that each pod holds.
    pub state: LedgerState,
    /// The records of the pods.
    #[serde(default)]
    pub records: BTreeMap<PodUid, JournalPodRecord>,
}

impl JournalSnapshot {
    /// The rules made of the machine and the settings.
    ///
    /// # Errors
    /// If the settings do not fit the machine.
    pub fn rules(&self) -> Result<Rules, SettingsError> {
        Rules::new(self.machine.clone(), self.settings.clone())
    }
}

/// A transaction: the JSON of one line of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JournalTransaction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<JournalEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<JournalSnapshot>,
}
