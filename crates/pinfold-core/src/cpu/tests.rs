//! Rules of the CPU manager by example, and what sound decisions promise on any machine.

mod examples;
mod machines;
mod pod_level;
mod promises;
mod taking;
