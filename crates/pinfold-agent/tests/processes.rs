//! Integration tests that start processes. They are not in the same program as tests that close and open a journal again:
//! between fork and exec a child has its parent's lock on the journal.

#[path = "faults/main.rs"]
mod faults;
mod program;
