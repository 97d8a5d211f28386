//! Configuration files of the daemons: one YAML file, every field with a default; errors carry their position.

mod access;
mod fields;
pub mod read;
pub mod write;

pub use access::Access;
pub use fields::{ConfigField, section_fields};
