//! The HTTP servers of the agent: its API on a unix socket, and metrics and health probes on a TCP port.
//!
//! ```text
//! unix socket ──► server (bounded) ──► api (routes, JSON) ──► Agent (the node)
//! TCP port    ──► server (bounded) ──► probes (GET only)  ──┘
//! ```
//!
//! Request sizes, timeouts and the number of connections are limited ([`HttpLimits`]). `docs/agent-api.md` describes the API.

mod api;

pub use api::ApiRoutes;
pub(crate) use api::is_valid_uid;
pub use pinfold_agent_api::{
    AdmissionResponse, AgentApiError, AgentStatus, ApiErrorKind, ContainerReport, DeviceReport,
    HostMount, JournalPage, MemoryReport, PinResult, PinTarget, PodOutcomeReport, PodReport,
    RulesChangeReport, TakeoverStatus,
};
pub use pinfold_daemon::http::{
    DaemonStatus, Health, HttpLimits, ProbeHandler, serve, serve_probes,
};

use pinfold_core::name::PodUid;

/// The operations of the agent's API. Calls may block on the disk and on locks; each runs on its own thread.
pub trait Agent: DaemonStatus {
    /// The agent's settings and health, and the occupancy of the node.
    fn status(&self) -> AgentStatus;

    /// The pods in the ledger, in the order of admission.
    fn pods(&self) -> Vec<PodReport>;

    /// Admits the pod of a manifest (YAML or JSON).
    ///
    /// # Errors
    /// If the manifest is not one pod, the pod is already in the ledger, or it is rejected.
    fn admit(&self, manifest: &[u8]) -> Result<AdmissionResponse, AgentApiError>;

    /// Releases everything that a pod holds.
    ///
    /// # Errors
    /// If the pod is not in the ledger.
    fn release(&self, pod: &PodUid) -> Result<(), AgentApiError>;

    /// Pins a process or a control group to the CPUs and NUMA nodes of a container.
    ///
    /// # Errors
    /// If the pod or container is not in the ledger, or the kernel rejects it.
    fn pin(&self, pod: &PodUid, target: &PinTarget) -> Result<PinResult, AgentApiError>;

    /// Plans the change to the settings of a KubeletConfiguration, without applying it.
    ///
    /// # Errors
    /// If it is not a valid KubeletConfiguration, or does not fit the machine.
    fn plan(&self, settings: &[u8]) -> Result<RulesChangeReport, AgentApiError>;

    /// Plans and applies the change to the settings of a KubeletConfiguration.
    ///
    /// # Errors
    /// If it cannot be planned, or a pod does not fit under the new settings.
    fn apply(&self, settings: &[u8]) -> Result<RulesChangeReport, AgentApiError>;

    /// The journal entries after the number `after`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// If the journal cannot be read.
    fn journal(&self, after: u64, limit: usize) -> Result<JournalPage, AgentApiError>;
}
