//! All measured cases.

mod admission;
mod cluster;
mod engine;
mod growth;
mod hints;
mod koordinator;
mod merge;
mod merge_in_full;
pub(crate) mod page;
mod picking;
mod planning;
mod volcano;

use crate::case::BenchCase;

/// All cases in the order of the report.
pub(crate) fn all() -> Vec<BenchCase> {
    let mut cases = merge::cases();
    cases.extend(hints::cases());
    cases.extend(picking::cases());
    cases.extend(admission::cases());
    cases.extend(merge_in_full::cases());
    cases.extend(growth::cases());
    cases.extend(koordinator::cases());
    cases.extend(volcano::cases());
    cases.extend(cluster::cases());
    cases.extend(engine::cases());
    cases.extend(planning::cases());
    cases.extend(page::cases());
    cases
}
