//! All integration tests, in one program.

mod documentation;
#[path = "engine/main.rs"]
mod engine;
mod program;
