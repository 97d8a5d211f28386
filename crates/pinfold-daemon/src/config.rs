//! Reading a daemon's configuration: one YAML file, every field with a default and its place.

mod access;
mod fields;
pub mod read;
pub mod write;

pub use access::Access;
pub use fields::{Field, members};
