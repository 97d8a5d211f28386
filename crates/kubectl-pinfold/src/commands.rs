//! One file per command, and the state of the cluster that they share.

pub(crate) mod capacity;
mod cluster_state;
pub(crate) mod doctor;
pub(crate) mod explain;
mod live;
mod moves;
mod occupancy;
mod reasons;
pub(crate) mod snapshot;
pub(crate) mod top;
pub(crate) mod ui;
pub(crate) mod upgrade;
pub(crate) mod view;
