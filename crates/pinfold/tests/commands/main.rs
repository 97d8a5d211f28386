//! The program as people run it: every command's text, its exit codes, and what its outputs promise.

mod examples;
mod golden;
mod handbook;
mod program;
mod promises;
mod terminal;
mod texts;
