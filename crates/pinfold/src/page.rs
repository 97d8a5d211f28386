//! What `pinfold serve` answers to the page: the same reports as `-o json`, made by the same code.

pub(crate) mod examples;
pub(crate) mod explanation;
pub(crate) mod findings;
pub(crate) mod node;
pub(crate) mod playground;
mod pool_load;
pub(crate) mod question;
mod timeline;
