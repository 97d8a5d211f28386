//! The device side of a node agent.
//!
//! [`Manager`] speaks to device plugins as the kubelet does: it serves the registration socket, connects back to
//! every plugin, keeps the list of its devices, and asks it when devices are chosen, given and used. What the
//! plugins offer comes out as values for `Ledger::offer` through [`Offers`]; what they answer when devices are
//! given is kept in [`Grants`], in the kubelet's checkpoint format across restarts.
//!
//! ```text
//! plugins ──Register──► Manager ──► Offers ──► Ledger::offer
//!         ◄─ListAndWatch──┤
//!         ◄─GetPreferredAllocation── Manager::advice (during Ledger::admit)
//!         ◄─Allocate──────── Manager::allocate ──► Grants ──► ContainerEdits, checkpoint
//!         ◄─PreStartContainer── Manager::pre_start
//! ```
//!
//! [`Host`] is all of it together for an agent that is not asynchronous itself.
//!
//! [`pod_resources`] answers monitoring agents from a snapshot. Everything a peer could grow has a bound: see
//! [`Limits`].

pub mod align;
mod directory;
mod edits;
mod grants;
mod host;
mod limits;
mod manager;
mod offers;
mod plugin;
pub mod pod_resources;
mod registrar;
mod registry;

pub use directory::DirectoryError;
pub use edits::{Conflict, ContainerEdits, Place};
pub use grants::{Grant, Grants};
pub use host::{Host, HostConfig, HostError, OfferReceiver};
pub use limits::Limits;
pub use manager::{Activity, Advice, Config, Manager, StartError};
pub use offers::{Offer, Offers};
pub use plugin::PluginError;
pub use registrar::Rejection;
