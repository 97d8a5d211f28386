//! A running cluster: its objects from the API server.

use pinfold_kube::inventory::Inventory;

use super::SourceArgs;
use crate::exit::Failure;

/// Everything the API server has that matters here, and what is missing.
pub(super) fn inventory(_: &SourceArgs) -> Result<(Inventory, Vec<String>), Failure> {
    Err(Failure::BadInput(
        "expected --nodes FILE with the objects of the cluster".to_owned(),
    ))
}
