//! End-to-end tests of Pinfold with real kernels and real programs.

mod guest;
mod initrd;

fn main() {}
