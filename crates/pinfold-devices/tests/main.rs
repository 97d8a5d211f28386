//! All integration tests, in one program.

mod align;
mod fake;
mod host;
mod manager;
mod pod_resources;
