//! All integration tests, in one program.

#[path = "extender/main.rs"]
mod extender;
mod handbook;
mod program;
