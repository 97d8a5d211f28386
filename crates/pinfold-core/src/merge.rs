//! The merge: one placement out of what all resources said, without the product of all combinations.
