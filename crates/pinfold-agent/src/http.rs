//! HTTP: the API of a node on a unix socket, and what Prometheus and probes ask on a TCP port.
//!
//! ```text
//! unix socket ──► server (bounded) ──► api (routes, JSON) ──► Agent (the node)
//! TCP port    ──► server (bounded) ──► probes (GET only)  ──┘
//! ```
//!
//! Sizes, times and the number of connections are limited ([`Limits`]). The API is described in `docs/agent-api.md`.

mod api;
pub mod socket;

pub use api::Api;
pub use pinfold_agent_api::{
    Admitted, ApiError, ContainerReport, DeviceReport, Enforced, ErrorKind, FateReport,
    JournalPage, MemoryReport, Mount, PlanReport, PodReport, Status, Takeover, Target,
};
pub use pinfold_daemon::http::{Health, Limits, Probed, Probes, serve};

use pinfold_core::name::PodUid;

/// What a node can be asked through its API. Calls may block on the disk and on locks; each has a thread of its own.
pub trait Agent: Probed {
    /// How the node is.
    fn status(&self) -> Status;

    /// The pods that are here, in the order they came.
    fn pods(&self) -> Vec<PodReport>;

    /// Lets the pod of a manifest (YAML or JSON) in.
    ///
    /// # Errors
    /// If it is no pod, is here already, or is rejected: then with the explanation.
    fn admit(&self, manifest: &[u8]) -> Result<Admitted, ApiError>;

    /// A pod leaves.
    ///
    /// # Errors
    /// If it is not here.
    fn release(&self, pod: &PodUid) -> Result<(), ApiError>;

    /// Confines a process or a control group to what a pod was given.
    ///
    /// # Errors
    /// If the pod is not here, or the machine does not allow it.
    fn enforce(&self, pod: &PodUid, target: &Target) -> Result<Enforced, ApiError>;

    /// What other rules (a KubeletConfiguration) would mean for everybody. Nothing is changed.
    ///
    /// # Errors
    /// If they are no rules, or do not fit the machine.
    fn plan(&self, settings: &[u8]) -> Result<PlanReport, ApiError>;

    /// The same, and then it is done.
    ///
    /// # Errors
    /// As for a plan, and if somebody would have no place.
    fn apply(&self, settings: &[u8]) -> Result<PlanReport, ApiError>;

    /// Entries of the journal after a number, oldest first, at most `most`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn journal(&self, after: u64, most: usize) -> Result<JournalPage, ApiError>;
}
