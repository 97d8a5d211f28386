//! [`ListPage`]: one page of a list, whose items stay unparsed.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api_client::ApiError;

/// One page of a list.
pub(crate) struct ListPage<'a> {
    /// The items as JSON.
    pub(crate) items: Vec<&'a RawValue>,
    /// The continue token of the next page; `None` on the last page.
    pub(crate) next: Option<String>,
    /// The resource version of the list.
    pub(crate) resource_version: Option<String>,
}

#[derive(Deserialize)]
struct ListBody<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl<'a> ListPage<'a> {
    /// Parses the response to a list request of `path`.
    pub(crate) fn parse(body: &'a [u8], path: &str) -> Result<Self, ApiError> {
        let body: Option<ListBody<'_>> = serde_json::from_slice(body).ok();
        let malformed = || ApiError::Malformed {
            path: path.to_owned(),
            expected: "a list of objects",
        };
        let ListBody { metadata, items } = body.ok_or_else(malformed)?;
        Ok(Self {
            items: items.ok_or_else(malformed)?,
            next: metadata.next.filter(|token| !token.is_empty()),
            resource_version: metadata.resource_version,
        })
    }
}
