//! [`snapshot`]: lists all objects of some resources once, in bounded pages, for command line programs.

use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::api_client::{ApiClient, ApiError, percent_encode};
use crate::connection::{Connection, ConnectionError};
use crate::list_page::ListPage;

/// Timeout of one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the whole snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(300);
/// How often a list is restarted whose continue token expired.
const MAX_RESTARTS: usize = 3;

/// A resource to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Paths of the list, such as `/api/v1/pods`; the first that the server serves and permits is used.
    pub paths: Vec<String>,
    /// A field selector; empty for all objects.
    pub field_selector: String,
    /// The most objects in one page.
    pub page_size: usize,
    /// The most objects that are read.
    pub max_objects: usize,
}

/// The result of listing one resource.
#[derive(Clone, Debug, PartialEq)]
pub enum ListResult {
    /// All objects.
    All {
        /// The path that was listed.
        path: String,
        /// The objects as JSON; list items have no `apiVersion` and `kind`.
        objects: Vec<String>,
    },
    /// The server rejected all paths; the error of the last one.
    Rejected(ApiError),
    /// There are more objects than `max_objects`.
    TooMany {
        /// The limit.
        max_objects: usize,
    },
}

/// Errors that make the whole snapshot fail.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The connection cannot be set up.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A request failed, or the response is not a list.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Lists the resources one after the other.
///
/// # Errors
/// If the server cannot be reached or a response is malformed. A rejected resource is a [`ListResult`], not an error.
pub fn snapshot(
    connection: &Connection,
    requests: &[ListRequest],
) -> Result<Vec<ListResult>, SnapshotError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ConnectionError::Thread)?;
    let listed = runtime.block_on(async {
        let api = ApiClient::new(connection, PAGE_TIMEOUT)?;
        let deadline = Instant::now() + SNAPSHOT_TIMEOUT;
        let mut all = Vec::with_capacity(requests.len());
        for request in requests {
            all.push(list(&api, request, deadline).await?);
        }
        Ok(all)
    });
    // Does not wait for a DNS lookup that is still running.
    runtime.shutdown_background();
    listed
}

/// Lists one resource from the first path that is served and permitted.
async fn list(
    api: &ApiClient,
    request: &ListRequest,
    deadline: Instant,
) -> Result<ListResult, ApiError> {
    let mut rejected = None;
    for path in &request.paths {
        let mut restarts = 0;
        loop {
            match pages(api, request, path, deadline).await {
                Err(error) if matches!(error.code(), Some(401 | 403 | 404 | 405)) => {
                    rejected = Some(error);
                    break;
                }
                // The continue token expired: start from the first page.
                Err(error) if error.code() == Some(410) && restarts < MAX_RESTARTS => restarts += 1,
                Err(error) => return Err(error),
                Ok(None) => {
                    let max_objects = request.max_objects;
                    return Ok(ListResult::TooMany { max_objects });
                }
                Ok(Some(objects)) => {
                    let path = path.clone();
                    return Ok(ListResult::All { path, objects });
                }
            }
        }
    }
    Ok(ListResult::Rejected(rejected.unwrap_or(
        ApiError::Malformed {
            path: String::new(),
            expected: "a path to list",
        },
    )))
}

/// The objects of all pages; `None` if they are more than `max_objects`.
async fn pages(
    api: &ApiClient,
    request: &ListRequest,
    path: &str,
    deadline: Instant,
) -> Result<Option<Vec<String>>, ApiError> {
    let mut objects = Vec::new();
    let mut size = request.page_size.max(1);
    let mut token = String::new();
    loop {
        if Instant::now() > deadline {
            return Err(ApiError::TimedOut(SNAPSHOT_TIMEOUT));
        }
        let body = match api.get_bytes(&page_path(path, request, size, &token)).await {
            // Halves the page until it is small enough.
            Err(ApiError::TooLarge { .. }) if size > 1 => {
                size /= 2;
                continue;
            }
            body => body?,
        };
        let page = ListPage::parse(&body, path)?;
        if objects.len().saturating_add(page.items.len()) > request.max_objects {
            return Ok(None);
        }
        objects.extend(page.items.iter().map(|item| item.get().to_owned()));
        match page.next {
            Some(next) if next != token => token = next,
            _ => return Ok(Some(objects)),
        }
    }
}

fn page_path(path: &str, request: &ListRequest, size: usize, token: &str) -> String {
    let mut full = format!("{path}?limit={size}");
    let selector = request.field_selector.as_str();
    for (key, value) in [("fieldSelector", selector), ("continue", token)] {
        if !value.is_empty() {
            full.push_str(&format!("&{key}={}", percent_encode(value)));
        }
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_cannot_change_the_path_or_the_query() {
        let request = ListRequest {
            paths: Vec::new(),
            field_selector: "status.phase!=Failed".to_owned(),
            page_size: 50,
            max_objects: 100,
        };
        assert_eq!(
            page_path("/api/v1/pods", &request, 25, "a&b=c/../d"),
            "/api/v1/pods?limit=25&fieldSelector=status.phase%21%3DFailed&continue=a%26b%3Dc%2F..%2Fd"
        );
    }
}
