//! The Kubernetes vocabulary: objects, settings and state files to core values and back.

mod go;
pub mod state;
