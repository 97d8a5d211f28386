//! All integration tests, in one program.

#[path = "../../pinfold-core/tests/histories/mod.rs"]
mod histories;
mod node_topology_properties;
