//! Device plugins and the pod resources API, as the kubelet implements them.
//!
//! [`PluginManager`] talks to device plugins as the kubelet does: it serves the registration socket, connects back to
//! every plugin, keeps the list of its devices, and calls it when devices are chosen, allocated and about to be used.
//! The plugins' offers are read from [`OfferQueue`] and passed to `Ledger::offer`; their responses to `Allocate` are
//! kept in [`DeviceAllocations`], and across restarts in the kubelet's checkpoint format.
//!
//! ```text
//! plugins ──Register──► PluginManager ──► OfferQueue ──► Ledger::offer
//!         ◄─ListAndWatch──┤
//!         ◄─GetPreferredAllocation── PluginManager::preferences (during Ledger::admit)
//!         ◄─Allocate──────── PluginManager::allocate ──► DeviceAllocations ──► ContainerEdits, checkpoint
//!         ◄─PreStartContainer── PluginManager::pre_start
//! ```
//!
//! [`DeviceHost`] combines all of it for an agent that is not asynchronous itself.
//!
//! [`pod_resources`] serves monitoring agents from a snapshot. Everything that a peer could make grow is bounded: see
//! [`PluginLimits`].

pub mod align;
mod allocations;
mod directory;
mod edits;
mod host;
mod limits;
mod manager;
mod offers;
mod plugin;
pub mod pod_resources;
mod registrar;
mod registry;

pub use allocations::{DeviceAllocation, DeviceAllocations};
pub use directory::DirectoryError;
pub use edits::{ContainerEdits, EditConflict, EditTarget};
pub use host::{DeviceHost, HostConfig, HostError, OfferReceiver};
pub use limits::PluginLimits;
pub use manager::{
    PluginActivity, PluginManager, PluginManagerConfig, PluginPreferences, StartError,
};
pub use offers::{OfferQueue, PluginOffer};
pub use plugin::PluginError;
pub use registrar::RegistrationError;
