//! All integration tests, in one program.

#[path = "machines/main.rs"]
mod machines;
#[path = "real_machines/main.rs"]
mod real_machines;
