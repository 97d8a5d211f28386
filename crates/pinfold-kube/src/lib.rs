//! The Kubernetes vocabulary: objects, settings and state files to core values and back.

pub mod finding;
mod go;
pub mod manifest;
pub mod pod;
pub mod state;
mod suggest;
