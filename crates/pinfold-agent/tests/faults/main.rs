//! The journal survives kills, damaged files, full disks and a second agent. The tests use real files and processes.

mod damage;
mod disk;
mod fixture;
mod kill;

pub(crate) use fixture::exclusive_lock;
