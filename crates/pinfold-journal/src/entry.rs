//! What is written down: entries of the history, and bases that the state starts from.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::ledger::{Change, LedgerState, Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_core::settings::Settings;
use serde::{Deserialize, Serialize};

use super::{Note, Timestamp};

/// One decision with everything that came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place in the history; every entry has the number after the one before it.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub what: What,
    /// What people call the pod, if it is about one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What came of it and why, in one sentence.
    pub told: String,
    /// What it changed; `None` if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// What is remembered about the pod, if it was let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// The pod, where the change does not have it: it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<Pod>>,
    /// The decision with its assignment or rejection and the facts it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<serde_json::Value>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A pod was let in.
    Admitted(PodUid),
    /// A pod was turned away.
    Rejected(PodUid),
    /// A container started.
    Started(PodUid, ContainerName),
    /// A control group that no runtime knows is held to what a container has.
    Held(PodUid, ContainerName),
    /// A pod left.
    Released(PodUid),
    /// A device plugin came, went, or reported other devices or other health.
    Offered(ResourceName),
    /// The machine or how it is run changed.
    Amended,
}

/// A node as a whole: what all later changes start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The number of the last entry whose change is in it.
    pub number: u64,
    /// The machine.
    pub machine: Arc<Machine>,
    /// How it is run.
    pub settings: Settings,
    /// Who holds what.
    pub state: LedgerState,
    /// What is remembered about them.
    #[serde(default)]
    pub notes: BTreeMap<PodUid, Note>,
}

impl Base {
    /// The rules that the state was made under.
    ///
    /// # Errors
    /// If the settings do not fit the machine.
    pub fn rules(&self) -> Result<Rules, SettingsError> {
        Rules::new(self.machine.clone(), self.settings.clone())
    }
}

/// One line of the file: one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transaction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<Base>,
}
