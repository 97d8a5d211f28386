//! All integration tests, in one program.

mod documentation;
#[path = "extender/main.rs"]
mod extender;
mod program;
