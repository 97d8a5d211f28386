//! The Volcano dialect: how its numa-aware plugin places tasks.
