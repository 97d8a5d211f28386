//! The device manager: which concrete devices a container gets.
