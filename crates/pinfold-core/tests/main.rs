//! All integration tests, in one program: linking one is cheaper than linking seven.

mod histories;
mod ledger_properties;
mod merge_cases;
mod merge_large;
mod merge_random;
mod merge_rules;
mod scenarios;
mod worked_examples;
