//! [`snapshot`]: all objects of some kinds as they are right now, in bounded pages, for programs that ask once and end.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime::Builder;

use crate::api::{Api, ApiError, escaped};
use crate::connection::{Connection, ConnectionError};

/// The longest that one page may take.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// The longest that all of it may take.
const WHOLE_LIMIT: Duration = Duration::from_secs(300);
/// A list that changes too fast to be read to its end is begun anew so often.
const MOST_STARTS: usize = 3;

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Paths of its list, such as `/api/v1/pods`: the first that the server serves and allows is taken.
    pub paths: Vec<String>,
    /// A field selector; empty for all objects.
    pub fields: String,
    /// The most objects in one page.
    pub page: usize,
    /// The most objects that are read.
    pub most: usize,
}

/// What came of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// All objects there are, and the path they came from.
    All {
        /// The path.
        path: String,
        /// The objects; in a list they do not say what they are.
        objects: Vec<Value>,
    },
    /// The server says no to all paths; what it said to the last one.
    Rejected(ApiError),
    /// There are more objects than are read.
    TooMany {
        /// How many are read.
        most: usize,
    },
}

/// Why there is no snapshot at all.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no way to the server.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server does not answer, or not with lists.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Lists all kinds, one after the other.
///
/// # Errors
/// If the server cannot be reached or makes no sense. A server that says no to a kind is part of the answer.
pub fn snapshot(connection: &Connection, wanted: &[Wanted]) -> Result<Vec<Listed>, SnapshotError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ConnectionError::Thread)?;
    let listed = runtime.block_on(async {
        let api = Api::new(connection, PAGE_LIMIT)?;
        let deadline = Instant::now() + WHOLE_LIMIT;
        let mut all = Vec::with_capacity(wanted.len());
        for kind in wanted {
            all.push(list(&api, kind, deadline).await?);
        }
        Ok(all)
    });
    // A name that is being looked up right now is nothing to wait for.
    runtime.shutdown_background();
    listed
}

/// Lists one kind from the first path that is served and allowed.
async fn list(api: &Api, kind: &Wanted, deadline: Instant) -> Result<Listed, ApiError> {
    let mut rejected = None;
    for path in &kind.paths {
        let mut starts = 0;
        loop {
            match pages(api, kind, path, deadline).await {
                Err(error) if matches!(error.code(), Some(401 | 403 | 404 | 405)) => {
                    rejected = Some(error);
                    break;
                }
                // The list went on without us.
                Err(error) if error.code() == Some(410) && starts < MOST_STARTS => starts += 1,
                Err(error) => return Err(error),
                Ok(None) => return Ok(Listed::TooMany { most: kind.most }),
                Ok(Some(objects)) => {
                    let path = path.clone();
                    return Ok(Listed::All { path, objects });
                }
            }
        }
    }
    Ok(Listed::Rejected(rejected.unwrap_or(ApiError::Garbage {
        path: String::new(),
        expected: "a path to ask for",
    })))
}

/// All pages of a list; `None` if they are too many.
async fn pages(
    api: &Api,
    kind: &Wanted,
    path: &str,
    deadline: Instant,
) -> Result<Option<Vec<Value>>, ApiError> {
    let mut objects = Vec::new();
    let mut size = kind.page.max(1);
    let mut token = String::new();
    loop {
        if Instant::now() > deadline {
            return Err(ApiError::TimedOut(WHOLE_LIMIT));
        }
        let mut page = match api.get(&address(path, kind, size, &token)).await {
            // Halves until a page can be read.
            Err(ApiError::TooLarge { .. }) if size > 1 => {
                size /= 2;
                continue;
            }
            page => page?,
        };
        let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) else {
            return Err(ApiError::Garbage {
                path: path.to_owned(),
                expected: "a list",
            });
        };
        if objects.len().saturating_add(items.len()) > kind.most {
            return Ok(None);
        }
        objects.extend(items);
        let next = page["metadata"]["continue"].as_str().unwrap_or_default();
        if next.is_empty() || next == token {
            return Ok(Some(objects));
        }
        token = next.to_owned();
    }
}

fn address(path: &str, kind: &Wanted, size: usize, token: &str) -> String {
    let mut address = format!("{path}?limit={size}");
    for (key, value) in [("fieldSelector", kind.fields.as_str()), ("continue", token)] {
        if !value.is_empty() {
            address.push_str(&format!("&{key}={}", escaped(value)));
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_server_says_breaks_out_of_an_address() {
        let kind = Wanted {
            paths: Vec::new(),
            fields: "status.phase!=Failed".to_owned(),
            page: 50,
            most: 100,
        };
        assert_eq!(
            address("/api/v1/pods", &kind, 25, "a&b=c/../d"),
            "/api/v1/pods?limit=25&fieldSelector=status.phase%21%3DFailed&continue=a%26b%3Dc%2F..%2Fd"
        );
    }
}
