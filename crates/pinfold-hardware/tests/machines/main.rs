//! What the crate promises, from the outside.

mod handbook;
mod hostile_input;
mod kubelet_view;
mod opening;
mod presets;
mod recordings;
