//! Integration tests that start no process.

#[path = "api/main.rs"]
mod api;
mod documentation;
mod journaled_ledger;
#[path = "kubernetes/main.rs"]
mod kubernetes;
mod mirror;
mod permissions;
