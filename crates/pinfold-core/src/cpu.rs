//! The CPU manager: who gets which CPUs for itself alone.

mod accumulator;
mod combinations;
mod distributed;
mod distribution;
mod packed;
mod take;

pub use distributed::take_distributed;
pub use packed::{Packing, take_packed};
pub use take::{CpuOrder, TakeError};
