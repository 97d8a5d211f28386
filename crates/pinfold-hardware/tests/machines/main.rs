//! Tests of the crate's public interface.

mod handbook;
mod hostile_input;
mod kubelet_view;
mod opening;
mod presets;
mod recorded;
mod recordings;
mod topology_json;
