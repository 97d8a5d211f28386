//! Rules of the CPU manager by example, and properties of sound decisions on any machine.

mod examples;
mod machines;
mod pod_level;
mod properties;
mod taking;
