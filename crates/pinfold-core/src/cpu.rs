//! The CPU manager: who gets which CPUs for itself alone.
